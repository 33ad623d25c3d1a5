#include "kernels/ple.h"

#include "kernels/ngram_hash.h"
#include "tests/kernels/cuda/twin.h"

namespace kernels::testing {
namespace {

using gpu::DType;
using ::testing::HasSubstr;

constexpr std::int32_t kEos = 248044;
constexpr std::int32_t kSlots = 3, kMaxPositions = 80;

/// Constants of a layer: the published multipliers, or ones whose products wrap; sizes that no product hides.
struct Hash {
  std::int32_t ngram_size, heads_per_ngram;
  std::vector<std::int64_t> multipliers, sizes, offsets;
  DeviceVector<std::int64_t> multipliers_on_device, sizes_on_device, offsets_on_device;

  Hash(std::int32_t size, std::int32_t heads, std::mt19937_64& rng)
      : ngram_size(size),
        heads_per_ngram(heads),
        multipliers{23703573157769, 20109073645365, 8052911324071},
        sizes(static_cast<std::size_t>((size - 1) * heads)),
        offsets(sizes.size()),
        multipliers_on_device(more(multipliers, size, rng)),
        sizes_on_device(sized(sizes, offsets)),
        offsets_on_device(offsets) {}

  static std::vector<std::int64_t>& more(std::vector<std::int64_t>& values, std::int32_t n,
                                         std::mt19937_64& rng) {
    while (static_cast<std::int32_t>(values.size()) < n)
      values.push_back(static_cast<std::int64_t>(rng() | 1U));
    values.resize(static_cast<std::size_t>(n));
    return values;
  }
  static std::vector<std::int64_t>& sized(std::vector<std::int64_t>& sizes,
                                          std::vector<std::int64_t>& offsets) {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = 20000003 + 14 * static_cast<std::int64_t>(i * i);
      offsets[i] = before;
      before += sizes[i];
    }
    return sizes;
  }
};

NgramRowsArgs hash_args(Hash& hash, bool device, MatrixView<std::int64_t> rows,
                        MatrixView<const std::int32_t> ids) {
  NgramRowsArgs args;
  args.rows = rows;
  args.ids = ids;
  args.multipliers =
      device ? VectorView<const std::int64_t>(hash.multipliers_on_device.view()) : view_of(hash.multipliers);
  args.sizes = device ? VectorView<const std::int64_t>(hash.sizes_on_device.view()) : view_of(hash.sizes);
  args.offsets =
      device ? VectorView<const std::int64_t>(hash.offsets_on_device.view()) : view_of(hash.offsets);
  args.ngram_size = hash.ngram_size;
  args.heads_per_ngram = hash.heads_per_ngram;
  args.eos = kEos;
  return args;
}

TEST(CudaNgramRows, AreTheCpusRowsForAnyOrderAndAnyEos) {
  REQUIRE_DEVICE();
  std::mt19937_64 rng(61);
  for (const auto& [ngram_size, heads] : {std::pair{3, 8}, {2, 1}, {5, 3}}) {
    Hash hash(ngram_size, heads, rng);
    OpMatrix ids(DType::i32, kSlots, kMaxPositions);
    for (std::int32_t slot = 0; slot < kSlots; ++slot) {
      for (std::int32_t p = 0; p < kMaxPositions; ++p) {
        const double id = rng() % 4 == 0 ? kEos : rng() % 30 == 0 ? -5 : static_cast<double>(rng() % 248320);
        ids.set(slot, p, id);
      }
    }
    DeviceMatrix ids_on_device(ids);
    const SegmentRows rows(Form::prefill, {{1, 0, 70}, {0, 0, 1}, {2, 79, 1}, {0, 1, 5}});
    const DeviceBatch batch(rows.batch());
    const std::int64_t num_heads = (ngram_size - 1) * heads, num_rows = rows.batch().num_rows.n;
    std::vector<std::int64_t> expected(static_cast<std::size_t>(num_rows * num_heads), -1);
    DeviceVector<std::int64_t> got(expected);
    on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
      const MatrixView<std::int64_t> out{
          device ? got.view().base : expected.data(), {num_rows}, {num_heads}, {num_heads}};
      return ops.ngram_rows(
          stream, device ? batch.batch() : rows.batch(),
          hash_args(hash, device, out,
                    device ? ids_on_device.view<std::int32_t>() : ids.view<std::int32_t>()));
    });
    EXPECT_EQ(got.download(), expected) << "order " << ngram_size;
    // What the host reads ahead of the device.
    std::vector<std::int64_t> ahead(expected.size());
    const NgramConstants constants{
        hash.multipliers.data(), hash.sizes.data(), hash.offsets.data(), ngram_size, heads, kEos};
    for (std::int64_t r = 0; r < num_rows; ++r)
      ngram_rows_at(constants, ids.view<std::int32_t>().row(Rows{rows.batch().row_slot.base[r]}),
                    rows.batch().row_position.base[r], ahead.data() + r * num_heads);
    EXPECT_EQ(got.download(), ahead) << "order " << ngram_size;
  }
}

TEST(CudaNgramRows, APlaceOutsideIdsIsNamed) {
  REQUIRE_DEVICE();
  std::mt19937_64 rng(62);
  Hash hash(3, 8, rng);
  DeviceMatrix ids(OpMatrix(DType::i32, kSlots, kMaxPositions));
  const SegmentRows rows(Form::prefill, {{kSlots, 0, 1}});
  const DeviceBatch batch(rows.batch());
  DeviceVector<std::int64_t> out(std::vector<std::int64_t>(16, -1));
  on_device([&](Ops& ops, gpu::Stream& stream) {
    return ops.ngram_rows(
        stream, batch.batch(),
        hash_args(hash, true, {out.view().base, {1}, {16}, {16}}, ids.view<std::int32_t>()));
  });
  EXPECT_THAT(complaint_of_step(), HasSubstr("slot or position 3"));
}

/// Row ids of [rows, heads] on both sides.
struct RowIds {
  std::int64_t rows, heads;
  std::vector<std::int64_t> host;
  DeviceVector<std::int64_t> device;

  RowIds(std::int64_t num_rows, std::int64_t num_heads, std::vector<std::int64_t> ids)
      : rows(num_rows), heads(num_heads), host(std::move(ids)), device(host) {}
  MatrixView<const std::int64_t> at(bool on_device) {
    return {on_device ? device.view().base : host.data(), {rows}, {heads}, {heads}};
  }
};

TEST(CudaGatherTable, RowsOfEveryTableTypeAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(63);
  for (const DType y_type : kActivationTypes) {
    for (const DType table_type : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t dim : {1, 8, 20, 160, 600}) {
        for (const std::int64_t heads : {1, 16}) {
          SCOPED_TRACE(::testing::Message() << gpu::to_string(table_type) << " to " << gpu::to_string(y_type)
                                            << ", " << heads << " of " << dim);
          constexpr std::int64_t kRows = 37, kTableRows = 501;
          OpMatrix table = OpMatrix::random(table_type, kTableRows, dim, rng);
          DeviceMatrix table_on_device(table);
          std::vector<std::int64_t> ids(static_cast<std::size_t>(kRows * heads));
          for (std::int64_t& id : ids) id = static_cast<std::int64_t>(rng() % kTableRows);
          RowIds rows(kRows, heads, ids);
          Twin y(y_type, kRows, heads * dim);
          on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
            return ops.gather_table(
                stream, {y.at(device), device ? table_on_device.matrix() : table.matrix(), rows.at(device)});
          });
          if (y_type == DType::f32 || table_type == DType::bf16) {
            y.expect_equal("y");
          } else {
            y.expect_near("y");
          }
        }
      }
    }
  }
}

TEST(CudaGatherTable, ARowOutsideTheTableIsNamedAndTheNextStepWorks) {
  REQUIRE_DEVICE();
  std::mt19937 rng(64);
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{50}, std::int64_t{1} << 40}) {
    Twin table = Twin::random(DType::bf16, 50, 24, rng), y(DType::bf16, 2, 48);
    RowIds rows(2, 2, {4, 49, 0, wrong});
    on_device([&](Ops& ops, gpu::Stream& stream) {
      return ops.gather_table(stream, {y.device(), table.device(), rows.at(true)});
    });
    EXPECT_THAT(complaint_of_step(), HasSubstr("gather_table: row 1: row id " + std::to_string(wrong)));
    EXPECT_EQ(complaint_of_step(), "");
  }
}

TEST(CudaGatherTable, AQuantisedTableIsRefusedByName) {
  REQUIRE_DEVICE();
  Twin y(DType::bf16, 1, 64);
  RowIds rows(1, 2, {0, 1});
  QuantizedMatrix table;
  table.base = y.device().base;
  table.format = QuantFormat::q8_0;
  table.rows = {9};
  table.cols = {32};
  TestDevice& test = *TestDevice::get();
  const auto status = test.ops().gather_table(test.stream(), {y.device(), table, rows.at(true)});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().what, HasSubstr("gather_table: the table is q8_0"));
}

TEST(CudaPleGate, AgreesWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(65);
  for (const DType dtype : kActivationTypes) {
    for (const std::int32_t streams : {1, 3, 4}) {
      for (const auto [rows, cols] : row_shapes()) {
        SCOPED_TRACE(::testing::Message()
                     << streams << " streams of " << rows << "x" << cols << " " << gpu::to_string(dtype));
        Twin key = Twin::random(dtype, rows, cols * streams, rng);
        Twin query = Twin::random(dtype, rows, cols * streams, rng),
             value = Twin::random(dtype, rows, cols, rng);
        Twin gv(dtype, rows, cols * streams);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.ple_gate(stream,
                              {gv.at(device), key.at(device), query.at(device), value.at(device), streams});
        });
        gv.expect_near("gv");
      }
    }
  }
}

/// Nothing in common opens the gate half; a tiny score counts as 1e-6 with its sign.
TEST(CudaPleGate, ScoresOfZeroAndNearZeroAreClampedAsOnTheCpu) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    OpMatrix key(dtype, 5, 16), query(dtype, 5, 16), value(dtype, 5, 16);
    constexpr double kScores[] = {0.0, 1e-9, -1e-9, 4.0, -4.0};
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t c = 0; c < 16; ++c) {
        key.set(r, c, c == 3 ? kScores[r] : 0.0);
        query.set(r, c, 1.0);
        value.set(r, c, 0.5 + static_cast<double>(c));
      }
    }
    Twin k(key), q(query), v(value), gv(dtype, 5, 16);
    on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
      return ops.ple_gate(stream, {gv.at(device), k.at(device), q.at(device), v.at(device), 1});
    });
    gv.expect_near("gv");
    if (dtype == DType::f32) {
      EXPECT_EQ(gv.from_device().at(0, 0), 0.25);
      EXPECT_GT(gv.from_device().at(1, 0), 0.25);
      EXPECT_LT(gv.from_device().at(2, 0), 0.25);
    }
  }
}

TEST(CudaPleGate, ARowHasTheSameBitsAloneAndInABatchAlignedOrNot) {
  REQUIRE_DEVICE();
  constexpr std::int32_t kStreams = 4;
  for (const DType dtype : kActivationTypes) {
    for (const std::int64_t rows : batch_sizes()) {
      const auto run = [&](std::int64_t extra_pitch, std::int64_t step) {
        std::mt19937 rng(66);
        Twin key = Twin::random(dtype, rows, 1096 * kStreams, rng, 1.0, extra_pitch);
        Twin query = Twin::random(dtype, rows, 1096 * kStreams, rng, 1.0, extra_pitch);
        Twin value = Twin::random(dtype, rows, 1096, rng, 1.0, extra_pitch);
        Twin gv(dtype, rows, 1096 * kStreams, extra_pitch);
        on_device([&](Ops& ops, gpu::Stream& stream) -> gpu::Status {
          for (std::int64_t r = 0; r < rows; r += step) {
            const auto part = [&](Twin& m) { return m.part(true, r, step); };
            RETURN_IF_ERROR(ops.ple_gate(stream, {part(gv), part(key), part(query), part(value), kStreams}));
          }
          return gpu::Done{};
        });
        return gv;
      };
      Twin together = run(16, rows), alone = run(16, 1), odd = run(kOddPitch, rows);
      EXPECT_TRUE(same_rows(together.from_device(), alone.from_device())) << rows;
      EXPECT_TRUE(same_rows(together.from_device(), odd.from_device())) << rows;
      if (TestDevice::get()->small() && rows > 7) break;
    }
  }
}

}  // namespace
}  // namespace kernels::testing
