#pragma once

#include <cstdint>
#include <vector>

#include "gpu/dtype.h"

namespace bench {

/// The dimensions that operations are timed at: Qwen3.8-Flash-Next's by default.
struct Shapes {
  std::int64_t hidden = 2560, streams = 4, hc_rank = 320, vocab = 248320;
  std::int32_t heads = 24, kv_heads = 2, head_dim = 256, rotary_dim = 64;
  std::int32_t index_heads = 4, index_dim = 128, ratio = 4, top_blocks = 512;
  std::int32_t k_heads = 16, v_heads = 48, gdn_dim = 128, taps = 4;
  std::int32_t experts = 512, top_k = 10, intermediate = 640;
  std::int32_t ngram_heads = 16, ngram_dim = 160, ngram_size = 3;
  std::int64_t ngram_rows = 20'000'000;  ///< of 320 million: more than any cache holds
  std::int32_t block = 16, slots = 64;
  std::vector<std::int64_t> decode_rows = {1, 8, 32, 64}, prefill_rows = {512, 2048, 8192};
  std::vector<std::int32_t> contexts = {1024, 8192, 32768};  ///< of decode rows
  std::int64_t matmul = 8192;                                ///< the product that measures the rate
  std::int64_t stream_rows = 512;                            ///< logits whose scan measures the bandwidth
  std::int64_t beyond_cache = 192 << 20;                     ///< operands rotate through this many bytes
  gpu::DType activation = gpu::DType::bf16;

  std::int64_t wide() const { return streams * hidden; }
  std::int64_t conv_width() const { return std::int64_t{2 * k_heads + v_heads} * gdn_dim; }
  std::int64_t value_width() const { return std::int64_t{v_heads} * gdn_dim; }
  std::int64_t query_width() const { return std::int64_t{heads} * head_dim; }
  std::int64_t kv_width() const { return std::int64_t{kv_heads} * head_dim; }
  std::int64_t ngram_width() const { return std::int64_t{ngram_heads} * ngram_dim; }
};

/// Sizes for a machine without a device: whether everything runs, not how fast.
inline Shapes smoke_shapes() {
  Shapes s;
  s.hidden = 64, s.streams = 2, s.hc_rank = 16, s.vocab = 600;
  s.heads = 4, s.kv_heads = 2, s.head_dim = 32, s.rotary_dim = 16;
  s.index_heads = 2, s.index_dim = 32, s.top_blocks = 8;
  s.k_heads = 2, s.v_heads = 4, s.gdn_dim = 32;
  s.experts = 8, s.top_k = 2, s.intermediate = 32;
  s.ngram_heads = 4, s.ngram_dim = 16, s.ngram_rows = 1000;
  s.slots = 3;
  s.decode_rows = {1, 3}, s.prefill_rows = {70};
  s.contexts = {30, 100};
  s.matmul = 64, s.stream_rows = 4, s.beyond_cache = 1 << 16;
  return s;
}

}  // namespace bench
