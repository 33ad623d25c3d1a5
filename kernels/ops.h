#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/stream.h"
#include "kernels/attention.h"
#include "kernels/batch.h"
#include "kernels/elementwise.h"
#include "kernels/fallbacks.h"
#include "kernels/gemm.h"
#include "kernels/hyper_connection.h"
#include "kernels/moe.h"
#include "kernels/norm.h"
#include "kernels/ple.h"
#include "kernels/qsa.h"
#include "kernels/recurrent.h"
#include "kernels/sampling.h"

namespace kernels {

/// Hears a line that an operator should see (a slower path that was taken, and why).
using BackendLog = std::function<void(const std::string&)>;

/// The table of operations: everything a layer may ask of a backend. Each enqueues on the stream, allocates
/// nothing and synchronises nothing. Arguments are checked by one function per op shared by all backends
/// (check_args.h): refused names operand and numbers, and nothing ran. Activations are f32 on
/// the CPU; on CUDA f32 or bf16, as the plan says. Rows
/// == 0 is a no-op everywhere.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual gpu::Status embedding(gpu::Stream&, const RowBatch&, const EmbeddingArgs&) = 0;
  virtual gpu::Status gather_rows(gpu::Stream&, const GatherRowsArgs&) = 0;
  virtual gpu::Status add(gpu::Stream&, const AddArgs&) = 0;
  virtual gpu::Status scaled_silu(gpu::Stream&, const ScaledSiluArgs&) = 0;
  virtual gpu::Status swiglu(gpu::Stream&, const SwigluArgs&) = 0;

  virtual gpu::Status gemm(gpu::Stream&, const GemmArgs&) = 0;
  virtual gpu::Status gemm_group(gpu::Stream&, const GemmGroupArgs&) = 0;
  virtual gpu::Status rms_norm(gpu::Stream&, const RmsNormArgs&) = 0;
  virtual gpu::Status gated_rms_norm(gpu::Stream&, const GatedRmsNormArgs&) = 0;
  virtual gpu::Status head_norm_rope(gpu::Stream&, const RowBatch&, const HeadNormRopeArgs&) = 0;

  virtual gpu::Status kv_append(gpu::Stream&, const RowBatch&, const KvAppendArgs&) = 0;
  virtual gpu::Status attention(gpu::Stream&, const RowBatch&, const AttentionArgs&) = 0;
  virtual gpu::Status head_gate(gpu::Stream&, const HeadGateArgs&) = 0;
  virtual gpu::Status qsa_index_append(gpu::Stream&, const RowBatch&, const QsaIndexAppendArgs&) = 0;
  virtual gpu::Status qsa_select(gpu::Stream&, const RowBatch&, const QsaSelectArgs&) = 0;

  virtual gpu::Status causal_conv(gpu::Stream&, const RowBatch&, const CausalConvArgs&) = 0;
  virtual gpu::Status gdn(gpu::Stream&, const RowBatch&, const GdnArgs&) = 0;

  virtual gpu::Status repeat_streams(gpu::Stream&, const RepeatStreamsArgs&) = 0;
  virtual gpu::Status mix_streams(gpu::Stream&, const MixStreamsArgs&) = 0;
  virtual gpu::Status inject_streams(gpu::Stream&, const InjectStreamsArgs&) = 0;

  virtual gpu::Status ngram_rows(gpu::Stream&, const RowBatch&, const NgramRowsArgs&) = 0;
  virtual gpu::Status gather_table(gpu::Stream&, const GatherTableArgs&) = 0;
  virtual gpu::Status ple_gate(gpu::Stream&, const PleGateArgs&) = 0;

  virtual gpu::Status moe_route(gpu::Stream&, const MoeRouteArgs&) = 0;
  virtual gpu::Status moe_experts(gpu::Stream&, const MoeExpertsArgs&) = 0;
  virtual gpu::Status shared_expert_add(gpu::Stream&, const SharedExpertAddArgs&) = 0;

  virtual gpu::Status sample(gpu::Stream&, const SampleArgs&) = 0;

  /// Products that took a slower path since the last call, because a library refused them.
  virtual std::vector<GemmFallbacks> take_fallbacks() { return {}; }
  /// For drills and tests: the next `count` products meet a refusal as if by the library.
  virtual void refuse_products(int /*count*/) {}
  /// Control of the invariance test: allows what makes a row depend on the number of rows.
  virtual void allow_split_k(bool /*allowed*/) {}
  /// What a product would run on, in words; empty where there is no choice.
  virtual std::string describe_choice(const GemmArgs& /*args*/) { return {}; }
};

/// fp32 in a fixed order, vectorised with Highway: the CPU backend, and the specification that other backends
/// are compared with. Its streams are gpu::HostStream. It has one path for products, which a drill's refusal
/// does not change: that is said to `warn` and counted, so that what watches the count can be tried anywhere.
std::unique_ptr<Ops> make_cpu_ops(BackendLog warn = nullptr);

}  // namespace kernels
