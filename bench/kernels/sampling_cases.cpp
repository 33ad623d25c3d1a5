#include "bench/kernels/rig.h"

// Sampling over the whole vocabulary: what each kind of request asks of it.
namespace bench {
namespace {

constexpr std::int32_t kPositions = 1024;

struct Kind {
  std::string name;
  kernels::RowSampling sampling;
};
std::vector<Kind> kinds() {
  std::vector<Kind> all(5);
  all[0].name = "greedy";
  all[1].name = "temperature";
  all[1].sampling.temperature = 1.0F;
  all[2].name = "top_k 20, top_p 0.95";
  all[2].sampling.temperature = 1.0F;
  all[2].sampling.top_k = 20;
  all[2].sampling.top_p = 0.95F;
  all[3].name = "greedy, 20 logprobs";
  all[3].sampling.num_logprobs = 20;
  all[4].name = "greedy, penalties";
  all[4].sampling.presence_penalty = 0.5F;
  return all;
}

void bench_kind(Rig& rig, const Kind& kind, std::int64_t rows) {
  const Shapes& s = rig.shapes();
  Memory memory(rig);
  const double bytes = 4.0 * static_cast<double>(rows * s.vocab);
  const auto logits = memory.rotating(bytes, [&] { return memory.random(DType::f32, rows, s.vocab); });
  std::vector<kernels::RowSampling> params(static_cast<std::size_t>(rows), kind.sampling);
  for (std::size_t r = 0; r < params.size(); ++r) {
    params[r].slot = static_cast<std::int32_t>(r);
    params[r].position = kPositions / 2;
    params[r].seed = r;
  }
  kernels::SampleArgs args;
  args.out = memory.of(std::vector<kernels::SampledRow>(params.size()));
  args.ids = gpu::typed<std::int32_t>(memory.zeros(DType::i32, rows, kPositions));
  args.scratch = gpu::typed<float>(memory.zeros(DType::f32, rows, s.vocab));
  args.params = memory.of(params);
  args.counts = {gpu::typed<std::int32_t>(memory.zeros(DType::i32, rows, s.vocab)),
                 gpu::typed<std::int32_t>(memory.zeros(DType::i32, rows, kPositions)),
                 memory.of(std::vector<std::int32_t>(params.size(), 0)),
                 memory.of(std::vector<std::int32_t>(params.size(), 0))};
  rig.row("sample, " + kind.name, std::to_string(s.vocab), rows, {bytes, 0.0}, [&](std::int64_t t) {
    args.logits = gpu::typed<float>(nth(logits, t));
    return rig.ops().sample(rig.stream(), args);
  });
}

}  // namespace

void bench_sampling(Rig& rig) {
  for (const Kind& kind : kinds()) {
    for (const std::int64_t rows : rig.shapes().decode_rows)
      if (rig.wants("sample, " + kind.name)) bench_kind(rig, kind, rows);
  }
}

}  // namespace bench
