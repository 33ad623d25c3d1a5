#pragma once

#include <zlib.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "model/text/tokenizer.h"

namespace model::text {

/// Content of a file, unpacked where it is gzip.
inline std::string read_fixture(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error(path + " cannot be opened");
  std::string out;
  char buffer[1 << 16];
  for (int length; (length = gzread(file, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<std::size_t>(length));
  gzclose(file);
  return out;
}

inline std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path) {
  auto loaded = Tokenizer::from_json(read_fixture(path), path);
  if (!loaded) throw std::runtime_error(loaded.error().problems.at(0));
  return *loaded;
}

/// Of the embedded model: 4,096 ids.
inline std::shared_ptr<const Tokenizer> mini_tokenizer() {
  static const auto tokenizer = load_tokenizer(ATLAS_MODELS "/atlas-mini/tokenizer.json");
  return tokenizer;
}

/// A real one: 151,669 ids.
inline std::shared_ptr<const Tokenizer> qwen3_tokenizer() {
  static const auto tokenizer = load_tokenizer(ATLAS_FIXTURES "/tokenizer/qwen3.tokenizer.json.gz");
  return tokenizer;
}

}  // namespace model::text
