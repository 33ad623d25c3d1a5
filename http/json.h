#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/errors.h"

namespace http {

/// A value of a parsed JSON text. Views point into the Document that owns it. Numbers keep their spelling, so
/// an integer out of every range can still be reported by the name of its field, and what is copied into a
/// prompt is what the client wrote.
struct Json {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  std::string_view text;               ///< of a string, unescaped; of a number, as spelled
  std::vector<Json> items;             ///< of an array, or an object's values
  std::vector<std::string_view> keys;  ///< of an object, beside items
  std::vector<std::uint32_t> by_key;   ///< of a large object: places of its keys, in the order of the keys

  bool is(Kind wanted) const { return kind == wanted; }
  /// The last member of that name (as most parsers have it), null when there is none or this is no object.
  const Json* find(std::string_view name) const;
};
std::string_view name_of(Json::Kind kind);  ///< "a string", "an object", …

/// Of a text whose reader asks for no more.
inline constexpr std::size_t kMostValues = 2'000'000;

/// A whole JSON text, validated to its last byte: UTF-8, escapes, nesting (256), number of values, nothing
/// after the end.
class Document {
 public:
  static model::Result<Document, model::RequestError> parse(std::string text,
                                                            std::size_t max_values = kMostValues);
  /// A request's body: anything but an object is refused.
  static model::Result<Document, model::RequestError> parse_object(std::string text,
                                                                   std::size_t max_values = kMostValues);
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  const Json& root() const { return root_; }

 private:
  struct Storage;
  Document();
  std::unique_ptr<Storage> storage_;
  Json root_;
};

/// JSON text of a value, compact; key order and number spelling kept.
void append_json(std::string& out, const Json& value);
void append_float(std::string& out, float value);  ///< shortest that reads back equal; never NaN or infinite

}  // namespace http
