#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

#include "model/text/jinja/failure.h"
#include "model/text/jinja/text.h"

namespace model::text::jinja {

struct Namespace;
struct Scope;

/// What one rendering may use. No construct of the language gets past these: every operation that makes
/// something asks first.
struct Limits {
  std::int64_t max_steps = 10'000'000;  ///< node evaluations, list items and 128-byte pieces of string work
  int max_depth = 1000;                 ///< nodes being evaluated inside one another, macros included
  std::size_t max_text_bytes = std::size_t{64} << 20;  ///< the output and every string on the way
  std::size_t max_items = 1'000'000;                   ///< of one list or dict
};

/// The accounts of one rendering, and the owners of what could form cycles. Used by one thread, dies with the
/// rendering.
class Runtime {
 public:
  Runtime(Limits limits, std::time_t now) : limits_(limits), now_(now) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  void step(std::size_t count = 1);
  void work(std::size_t bytes) { step(1 + bytes / 128); }
  void check_text(std::size_t bytes) const;
  void check_items(std::size_t count) const;
  void enter();
  void leave() { --depth_; }
  std::time_t now() const { return now_; }

  /// Namespaces and captured scopes may come to hold themselves; what is kept here is emptied at the end.
  void keep(std::shared_ptr<Namespace> value);
  void keep(std::shared_ptr<Scope> scope);

 private:
  Limits limits_;
  std::time_t now_;
  std::int64_t steps_ = 0;
  int depth_ = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> scopes_;
};

class Nesting {
 public:
  explicit Nesting(Runtime& runtime) : runtime_(runtime) { runtime_.enter(); }
  ~Nesting() { runtime_.leave(); }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Runtime& runtime_;
};

/// Makes a Text piece by piece; refuses the piece that would exceed a bound before it is copied.
class Builder {
 public:
  explicit Builder(Runtime& runtime) : runtime_(runtime) {}

  void add(const Text& text) { add(text, 0, text.size()); }
  void add(const Text& text, std::size_t first, std::size_t last) {
    grow(last - first);
    text_.append(text, first, last);
  }
  void add(std::string_view bytes, bool foreign = false) {
    grow(bytes.size());
    text_.append(bytes, foreign);
  }
  void repeat(const Text& text, std::size_t times);
  std::size_t size() const { return text_.size(); }
  Text take() { return std::move(text_); }
  Runtime& runtime() { return runtime_; }

 private:
  void grow(std::size_t bytes);

  Runtime& runtime_;
  Text text_;
  std::size_t unpaid_ = 0;  ///< bytes of string work not yet charged: small pieces are charged together
};

}  // namespace model::text::jinja
