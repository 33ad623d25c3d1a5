#pragma once

#include <array>

#include "kernels/batch.h"

namespace kernels {

inline constexpr std::int32_t kMaxTopLogprobs = 20;

/// How one row is sampled. Plain data, on the device. Order: logit_bias and bans; penalties; temperature;
/// top_k; top_p; min_p; draw.
struct RowSampling {
  float temperature = 0.0F;  ///< 0: argmax, ties to the lower id
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::int32_t top_k = 0;                                   ///< 0: all
  float presence_penalty = 0.0F, frequency_penalty = 0.0F;  ///< over generated ids
  float repetition_penalty = 1.0F;                          ///< over prompt and generated ids
  std::uint64_t seed = 0;
  std::int32_t slot = 0;
  std::int32_t position = 0;  ///< of the token being sampled: the row's position + 1; keys the random number,
                              ///< and where it is written
  std::int32_t prompt_tokens = 0;
  std::int32_t num_logprobs = -1;  ///< -1 none; 0 the sampled token's; up to kMaxTopLogprobs alternatives
  std::int32_t first_bias = 0, num_biases = 0;  ///< range of `biases`
  std::int32_t first_ban = 0, num_bans = 0;     ///< range of `bans`
  std::int32_t first_mask_word = -1;            ///< reserved for grammar masks: -1 none
  std::int32_t given_token = -1;  ///< -1 none; else the row's token is known and nothing is drawn: the row
                                  ///< says how likely it was
};
struct TokenBias {
  std::int32_t token = 0;
  float bias = 0.0F;
};

/// What the penalties of a slot need to know of its ids, kept between calls, so that a row counts only those
/// that came since. A slot counts from its first id again once `counted` is zero: whoever begins a sequence
/// in it, or drops ids of its end, sees to that. All of it is zero at first.
struct PenaltyCounts {
  MatrixView<std::int32_t> of_token;  ///< [slots, vocab]: how often each was generated, plus kInPrompt
  MatrixView<std::int32_t> seen;      ///< [slots, positions]: the ids counted, each once
  VectorView<std::int32_t> counted;   ///< [slots]: how many positions
  VectorView<std::int32_t> num_seen;  ///< [slots]: how many of `seen`
  static constexpr std::int32_t kInPrompt = 1 << 30;
};

/// What comes back of one row.
struct SampledRow {
  std::int32_t token = 0;
  float logprob = 0.0F;  ///< log_softmax of the raw logits (before bias, penalties and temperature) at
                         ///< `token`, when asked for
  std::int32_t num_top = 0;
  std::int32_t finite = 1;  ///< 0: the row's logits held NaN or +inf; token is undefined
  std::array<std::int32_t, kMaxTopLogprobs> top_tokens{};
  std::array<float, kMaxTopLogprobs> top_logprobs{};  ///< descending; ties: lower id first
};

/// Samples each row and writes its token to ids[slot][position] (when position < ids.cols) and to out[row].
/// The random number of a row is uniform in [0, 1) from Philox4x32-10 with key = seed and counter = position,
/// so it depends on nothing else. The kept tokens are walked in ascending id until the cumulated probability
/// exceeds it. Rows with no bias, ban or penalty set leave the logits untouched. Shapes    logits: f32 [rows,
/// vocab]; scratch: f32 [rows, vocab].
struct SampleArgs {
  VectorView<SampledRow> out;  ///< [rows]
  MatrixView<std::int32_t> ids;
  MatrixView<const float> logits;
  MatrixView<float> scratch;
  VectorView<const RowSampling> params;  ///< [rows]
  VectorView<const TokenBias> biases;
  VectorView<const std::int32_t> bans;
  PenaltyCounts counts{};  ///< no base: every row counts all its ids
};

}  // namespace kernels
