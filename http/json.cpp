#include "http/json.h"

#include <simdjson.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "model/text/json_escape.h"

namespace http {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr int kMaxDepth = 256;
constexpr std::size_t kMaxKeysUnsorted = 64;  // beyond them a search over all keys is not small any more

std::string shortened(std::string_view key) {
  constexpr std::size_t kMaxKey = 64;
  if (key.size() <= kMaxKey) return std::string(key);
  std::size_t end = kMaxKey;
  while (end > 0 && (static_cast<unsigned char>(key[end]) & 0xC0U) == 0x80U) --end;
  return std::string(key.substr(0, end)) + "…";
}

std::string_view reason(simdjson::error_code error) {
  switch (error) {
    case simdjson::UTF8_ERROR:
      return "it is not valid UTF-8";
    case simdjson::STRING_ERROR:
      return "a string holds an invalid escape or an unpaired surrogate";
    case simdjson::UNESCAPED_CHARS:
      return "a string holds an unescaped control character";
    case simdjson::UNCLOSED_STRING:
      return "a string is not closed";
    case simdjson::EMPTY:
      return "it is empty";
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return "an array or object is not closed";
    case simdjson::DEPTH_ERROR:
      return "it is nested too deeply (256 levels)";
    case simdjson::TRAILING_CONTENT:
      return "something follows the first value";
    case simdjson::NUMBER_ERROR:
      return "a number is malformed";
    case simdjson::MEMALLOC:
      return "it is too large";
    default:
      return "it is malformed";
  }
}

/// What a number has to look like. simdjson's own conversions refuse numbers out of range too, and that is
/// for the field's reader to say.
bool is_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - first;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const bool zero = at < text.size() && text[at] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

/// Places in the order of the keys; equal keys stay in their own order.
void sort_keys(Json& object) {
  object.by_key.resize(object.keys.size());
  std::iota(object.by_key.begin(), object.by_key.end(), 0U);
  std::stable_sort(object.by_key.begin(), object.by_key.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return object.keys[a] < object.keys[b]; });
}

/// Walks the text once and keeps everything; `path` names the value that is being read.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::size_t max_values) : max_values_(max_values) {}

  template <class Value>
  simdjson::error_code build(Value&& value, Json& into, int depth) {
    if (depth > kMaxDepth) return simdjson::DEPTH_ERROR;
    if (++num_values_ > max_values_) return simdjson::CAPACITY;
    ondemand::json_type type{};
    if (auto error = value.type().get(type)) return error;
    switch (type) {
      case ondemand::json_type::array:
        return build_array(value, into, depth);
      case ondemand::json_type::object:
        return build_object(value, into, depth);
      case ondemand::json_type::string:
        into.kind = Json::Kind::string;
        return value.get_string().get(into.text);
      case ondemand::json_type::boolean:
        into.kind = Json::Kind::boolean;
        return value.get_bool().get(into.boolean);
      case ondemand::json_type::null:
        return build_null(value);
      case ondemand::json_type::number:
        return build_number(value, into);
    }
    return simdjson::TAPE_ERROR;
  }

  const std::string& path() const { return path_; }

 private:
  template <class Value>
  simdjson::error_code build_null(Value& value) {
    bool null = false;
    if (auto error = simdjson::simdjson_result<bool>(value.is_null()).get(null)) return error;
    return null ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
  }

  template <class Value>
  simdjson::error_code build_number(Value& value, Json& into) {
    into.kind = Json::Kind::number;
    std::string_view token;
    if (auto error = simdjson::simdjson_result<std::string_view>(value.raw_json_token()).get(token))
      return error;
    while (!token.empty() &&
           (token.back() == ' ' || token.back() == '\n' || token.back() == '\r' || token.back() == '\t')) {
      token.remove_suffix(1);
    }
    into.text = token;
    return is_number(token) ? simdjson::SUCCESS
                            : simdjson::NUMBER_ERROR;  // left unread: the iteration skips it
  }

  template <class Value>
  simdjson::error_code build_array(Value& value, Json& into, int depth) {
    into.kind = Json::Kind::array;
    ondemand::array array;
    if (auto error = value.get_array().get(array)) return error;
    const std::size_t length = path_.size();
    for (auto item : array) {
      ondemand::value child;
      path_.resize(length);
      path_ += '[' + std::to_string(into.items.size()) + ']';
      if (auto error = item.get(child)) return error;
      into.items.emplace_back();
      if (auto error = build(child, into.items.back(), depth + 1)) return error;
    }
    path_.resize(length);
    return simdjson::SUCCESS;
  }

  template <class Value>
  simdjson::error_code build_object(Value& value, Json& into, int depth) {
    into.kind = Json::Kind::object;
    ondemand::object object;
    if (auto error = value.get_object().get(object)) return error;
    const std::size_t length = path_.size();
    for (auto member : object) {
      path_.resize(length);
      std::string_view key;
      ondemand::value child;
      if (auto error = member.unescaped_key().get(key)) return error;
      path_ += (length == 0 ? "" : ".") + shortened(key);
      if (auto error = simdjson::simdjson_result<ondemand::value>(member.value()).get(child)) return error;
      into.keys.push_back(key);
      into.items.emplace_back();
      if (auto error = build(child, into.items.back(), depth + 1)) return error;
    }
    path_.resize(length);
    if (into.keys.size() > kMaxKeysUnsorted) sort_keys(into);
    return simdjson::SUCCESS;
  }

  std::string path_;
  std::size_t max_values_;
  std::size_t num_values_ = 0;
};

}  // namespace

struct Document::Storage {
  std::string text;
  ondemand::parser parser;
};

Document::Document() = default;
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

model::Result<Document, model::RequestError> Document::parse(std::string text, std::size_t max_values) {
  const auto refuse = [](std::string_view what, const std::string& path) {
    std::string message = "The request body is not valid JSON: ";
    message += what;
    if (!path.empty()) message += " (at " + path + ")";
    return model::RequestError{model::RequestError::Kind::invalid, message + '.', path, "invalid_json"};
  };
  Document document;
  document.storage_ = std::make_unique<Storage>();
  Storage& storage = *document.storage_;
  storage.text = std::move(text);
  const std::size_t size = storage.text.size();
  storage.text.reserve(size + simdjson::SIMDJSON_PADDING);

  ondemand::document iterated;
  const simdjson::padded_string_view view(storage.text.data(), size, storage.text.capacity());
  if (auto error = storage.parser.iterate(view).get(iterated)) return refuse(reason(error), "");
  ondemand::value root;
  if (auto error = iterated.get_value().get(root)) {
    // A lone number, string, true, false or null: no request is one.
    return refuse(error == simdjson::SCALAR_DOCUMENT_AS_VALUE ? "it has to be an object" : reason(error), "");
  }
  TreeBuilder builder(max_values);
  if (auto error = builder.build(root, document.root_, 1)) {
    if (error != simdjson::CAPACITY) return refuse(reason(error), builder.path());
    return model::RequestError{model::RequestError::Kind::invalid,
                               "The request body holds more than " + std::to_string(max_values) + " values.",
                               builder.path(), "request_too_large"};
  }
  const char* rest = nullptr;
  if (iterated.current_location().get(rest) != simdjson::OUT_OF_BOUNDS)
    return refuse("something follows the first value", "");
  return document;
}

model::Result<Document, model::RequestError> Document::parse_object(std::string text,
                                                                    std::size_t max_values) {
  auto document = parse(std::move(text), max_values);
  if (document.ok() && !document->root().is(Json::Kind::object)) {
    return model::RequestError{model::RequestError::Kind::invalid,
                               "The request body has to be a JSON object.", "", "invalid_json"};
  }
  return document;
}

const Json* Json::find(std::string_view name) const {
  if (!by_key.empty()) {
    const auto after =
        std::upper_bound(by_key.begin(), by_key.end(), name,
                         [&](std::string_view wanted, std::uint32_t place) { return wanted < keys[place]; });
    if (after == by_key.begin() || keys[*(after - 1)] != name) return nullptr;
    return &items[*(after - 1)];
  }
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (keys[i] == name) return &items[i];
  }
  return nullptr;
}

std::string_view name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return "a boolean";
    case Json::Kind::number:
      return "a number";
    case Json::Kind::string:
      return "a string";
    case Json::Kind::array:
      return "an array";
    case Json::Kind::object:
      return "an object";
  }
  return "nothing";
}

void append_json(std::string& out, const Json& value) {
  switch (value.kind) {
    case Json::Kind::null:
      out += "null";
      return;
    case Json::Kind::boolean:
      out += value.boolean ? "true" : "false";
      return;
    case Json::Kind::number:
      out += value.text;
      return;
    case Json::Kind::string:
      model::text::append_json_string(out, value.text);
      return;
    case Json::Kind::array:
      out += '[';
      for (const Json& item : value.items) {
        if (&item != value.items.data()) out += ',';
        append_json(out, item);
      }
      out += ']';
      return;
    case Json::Kind::object:
      out += '{';
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += ',';
        model::text::append_json_string(out, value.keys[i]);
        out += ':';
        append_json(out, value.items[i]);
      }
      out += '}';
      return;
  }
}

void append_float(std::string& out, float value) {
  constexpr float kLeast = -9999.0F;  // what clients know for "no probability at all"
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, std::isfinite(value) ? value : kLeast).ptr;
  out.append(digits, end);
}

}  // namespace http
