#include "model/text/jinja/runtime.h"

#include <algorithm>

#include "model/text/jinja/scope.h"

namespace model::text::jinja {

Runtime::~Runtime() {
  for (auto& value : namespaces_) value->attributes = Dict{};
  for (auto& scope : scopes_) scope->variables.clear();
}

void Runtime::step(std::size_t count) {
  steps_ += static_cast<std::int64_t>(count);
  if (steps_ > limits_.max_steps) {
    fail("the template takes more than " + std::to_string(limits_.max_steps) + " steps");
  }
}

void Runtime::check_text(std::size_t bytes) const {
  if (bytes > limits_.max_text_bytes) {
    fail("the template makes a string of more than " + std::to_string(limits_.max_text_bytes) + " bytes");
  }
}

void Runtime::check_items(std::size_t count) const {
  if (count > limits_.max_items) {
    fail("the template makes a list of more than " + std::to_string(limits_.max_items) + " items");
  }
}

void Runtime::enter() {
  if (depth_ >= limits_.max_depth) {
    fail("the template nests calls and expressions deeper than " + std::to_string(limits_.max_depth) +
         " (recursion depth)");
  }
  ++depth_;
}

void Runtime::keep(std::shared_ptr<Namespace> value) {
  step(10);
  namespaces_.push_back(std::move(value));
}

void Runtime::keep(std::shared_ptr<Scope> scope) {
  step(10);
  scopes_.push_back(std::move(scope));
}

void Builder::grow(std::size_t bytes) {
  runtime_.check_text(text_.size() + bytes);
  unpaid_ += bytes;
  if (unpaid_ >= 128) {
    runtime_.step(unpaid_ / 128);
    unpaid_ %= 128;
  }
}

void Builder::repeat(const Text& text, std::size_t times) {
  if (text.empty() || times == 0) return;
  runtime_.check_text(times);  // keeps the product below from overflowing
  runtime_.check_text(text_.size() + text.size() * times);
  Text chunk;  // many small pieces go in together
  std::size_t in_chunk = 0;
  while (in_chunk == 0 || (in_chunk < times && chunk.size() + text.size() <= 4096)) {
    chunk.append(text);
    ++in_chunk;
  }
  for (; times > 0; times -= std::min(in_chunk, times))
    add(chunk, 0, text.size() * std::min(in_chunk, times));
}

}  // namespace model::text::jinja
