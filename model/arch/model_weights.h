#pragma once

#include <optional>
#include <vector>

#include "gpu/buffer.h"
#include "kernels/gemm.h"
#include "model/arch/model_config.h"
#include "model/arch/stored_table.h"

namespace model {

using gpu::ConstMatrix;
using gpu::ConstVector;
using kernels::Weight;

/// Every weight of a model where the device reads it. Projections keep the checkpoint's dtype (f32, f16,
/// bf16) and row order [out, in]; vectors (norms, a_log, dt_bias) and depthwise convolutions ([channels,
/// taps]) are widened to f32. Embedding and n-gram tables keep their dtype.
struct HyperConnectionWeights {
  ConstVector norm;              // [C*H]
  Weight down, up;               // [rank, C*H], [C*H, rank]
  std::optional<Weight> inject;  // [C, C*H]; none in a final mixer
};
struct GdnWeights {
  Weight qkv, z, a, b, out;
  ConstMatrix conv;  // f32 [conv_width, taps]
  ConstVector a_log, dt_bias, norm;
};
struct IndexerWeights {
  Weight qk;  // [(heads+1)*dim, H]: q heads, then the key
  ConstVector q_norm, k_norm;
};
struct AttentionWeights {
  Weight q, k, v, o;           // with an output gate q is [heads*2*head_dim, H], per head q then gate
  ConstVector q_norm, k_norm;  // empty without qk_norm
  std::optional<IndexerWeights> indexer;
};
struct MlpWeights {
  Weight gate, up, down;
};
struct MoeWeights {
  Weight router;         // [E, H]
  Weight gate_up, down;  // [E*2I, H], [E*H, I]: fused, whatever form the checkpoint has
  std::optional<MlpWeights> shared;
  Weight shared_gate;  // [1, H]; with a shared expert
};
struct PleWeights {
  Weight key, value;
  ConstVector norm_key, norm_query, norm_conv;
  ConstMatrix conv;  // f32 [C*H, taps]
  Weight table;      // [rows, head_dim], shards joined in numeric order; empty where it stays in its files
  std::optional<StoredTable> stored;
  std::vector<std::int64_t> multipliers, sizes,
      offsets;  // derived, and checked against the checkpoint's buffers
};
struct LayerWeights {
  std::optional<HyperConnectionWeights> attn_hc, mlp_hc;  // qwen4_exp
  ConstVector input_norm, post_attention_norm;            // the others
  std::optional<PleWeights> ple;
  std::optional<GdnWeights> gdn;
  std::optional<AttentionWeights> attention;
  std::optional<MlpWeights> mlp;
  std::optional<MoeWeights> moe;
};
struct MtpWeights {
  Weight fc_embedding, fc_hidden;                         // qwen4_exp: [H, H] each
  Weight fc;                                              // the others: [H, 2H], the embedding's half first
  ConstVector pre_fc_norm_embedding, pre_fc_norm_hidden;  // [H]; [H], of qwen4_exp [C*H]
  std::optional<HyperConnectionWeights> mixer;            // qwen4_exp
  ConstVector final_norm;                                 // the others
  LayerWeights layer;
};
struct ModelWeights {
  Weight embedding;                             // [vocab, H]
  Weight head;                                  // [vocab, H]; the embedding when tied
  std::optional<HyperConnectionWeights> mixer;  // qwen4_exp
  ConstVector final_norm;                       // the others
  std::vector<LayerWeights> layers;
  std::optional<MtpWeights> mtp;
  std::vector<gpu::Buffer> storage;  // owns all of the above
};

}  // namespace model
