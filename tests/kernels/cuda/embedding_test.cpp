#include "kernels/elementwise.h"
#include "tests/kernels/cuda/twin.h"

namespace kernels::testing {
namespace {

using gpu::DType;
using ::testing::HasSubstr;

constexpr DType kTableTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr std::int32_t kSlots = 3, kMaxPositions = 70, kVocabulary = 23;

/// Token ids of three slots, some of them given by hand.
struct Ids {
  OpMatrix host{DType::i32, kSlots, kMaxPositions};
  std::unique_ptr<DeviceMatrix> device;

  explicit Ids(std::mt19937& rng) {
    for (std::int32_t slot = 0; slot < kSlots; ++slot) {
      for (std::int32_t p = 0; p < kMaxPositions; ++p) {
        host.set(slot, p, static_cast<double>(rng() % kVocabulary));
      }
    }
  }
  MatrixView<const std::int32_t> at(bool on_device) {
    if (!on_device) return host.view<std::int32_t>();
    if (device == nullptr) device = std::make_unique<DeviceMatrix>(host);
    return device->view<std::int32_t>();
  }
};

TEST(CudaEmbedding, RowsOfEveryTableTypeAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(5);
  Ids ids(rng);
  const SegmentRows rows(Form::prefill, {{2, 5, 60}, {0, 0, 1}, {1, 69, 1}});
  const DeviceBatch on_gpu(rows.batch());
  for (const DType y_type : kActivationTypes) {
    for (const DType table_type : kTableTypes) {
      for (const std::int64_t cols : {1, 8, 40, 100, 2056}) {
        SCOPED_TRACE(::testing::Message() << gpu::to_string(table_type) << " to " << gpu::to_string(y_type)
                                          << ", " << cols << " columns");
        const OpMatrix values = OpMatrix::random(table_type, kVocabulary, cols, rng);
        DeviceMatrix table(values);
        OpMatrix of_host = values;
        Twin y(y_type, 62, cols);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.embedding(stream, device ? on_gpu.batch() : rows.batch(),
                               {y.at(device), device ? table.matrix() : of_host.matrix(), ids.at(device)});
        });
        if (y_type == DType::f32 || table_type == DType::bf16) {
          y.expect_equal("y");  // widened exactly
        } else {
          y.expect_near("y");
        }
      }
    }
  }
}

/// f16 has numbers that bf16 has not: subnormals, infinities.
TEST(CudaEmbedding, EveryHalfIsWidenedExactly) {
  REQUIRE_DEVICE();
  OpMatrix table(DType::f16, 16, 4096, 0);
  for (std::int64_t i = 0; i < 65536; ++i) {
    reinterpret_cast<std::uint16_t*>(table.bytes())[i] = static_cast<std::uint16_t>(i);
  }
  DeviceMatrix on_gpu(table);
  OpMatrix ids(DType::i32, 1, 16);
  for (std::int64_t p = 0; p < 16; ++p) ids.set(0, p, static_cast<double>(p));
  DeviceMatrix ids_on_gpu(ids);
  const SegmentRows rows(Form::decode, {{0, 0, 16}});
  const DeviceBatch batch(rows.batch());
  Twin y(DType::f32, 16, 4096);
  on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
    return ops.embedding(stream, device ? batch.batch() : rows.batch(),
                         {y.at(device), device ? on_gpu.matrix() : table.matrix(),
                          device ? ids_on_gpu.view<std::int32_t>() : ids.view<std::int32_t>()});
  });
  const OpMatrix& got = y.from_device();
  for (std::int64_t i = 0; i < 65536; ++i) {
    const float a = got.f32(i / 4096, i % 4096), b = y.from_host().f32(i / 4096, i % 4096);
    ASSERT_TRUE(std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
                (std::isnan(a) && std::isnan(b)))
        << i;
  }
}

struct WrongPlace {
  std::int32_t slot, position, token;
  const char* said;
};

TEST(CudaEmbedding, TokensSlotsAndPositionsOutOfRangeAreNamedAndTheNextStepWorks) {
  REQUIRE_DEVICE();
  std::mt19937 rng(6);
  for (const WrongPlace& wrong :
       {WrongPlace{1, 7, kVocabulary, "embedding: row 4: token 23"},
        WrongPlace{1, 7, -1, "embedding: row 4: token -1"}, WrongPlace{kSlots, 7, 0, "slot or position 3"},
        WrongPlace{-2, 7, 0, "slot or position -2"}}) {
    Ids ids(rng);
    if (wrong.slot >= 0 && wrong.slot < kSlots) ids.host.set(wrong.slot, wrong.position, wrong.token);
    const SegmentRows rows(Form::decode, {{0, 0, 4}, {wrong.slot, wrong.position, 1}, {2, 9, 3}});
    const DeviceBatch batch(rows.batch());
    Twin table = Twin::random(DType::bf16, kVocabulary, 64, rng), y(DType::bf16, 8, 64);
    on_device([&](Ops& ops, gpu::Stream& stream) {
      return ops.embedding(stream, batch.batch(), {y.device(), table.device(), ids.at(true)});
    });
    EXPECT_THAT(complaint_of_step(), HasSubstr(wrong.said));
    EXPECT_EQ(complaint_of_step(), "");
  }
}

TEST(CudaEmbedding, APositionBeyondIdsIsNamed) {
  REQUIRE_DEVICE();
  std::mt19937 rng(7);
  Ids ids(rng);
  const SegmentRows rows(Form::decode, {{0, kMaxPositions, 1}});
  const DeviceBatch on_gpu(rows.batch());
  RowBatch batch = on_gpu.batch();
  batch.max_position = 1;  // or the shared check would see it
  Twin table = Twin::random(DType::bf16, kVocabulary, 64, rng), y(DType::bf16, 1, 64);
  on_device([&](Ops& ops, gpu::Stream& stream) {
    return ops.embedding(stream, batch, {y.device(), table.device(), ids.at(true)});
  });
  EXPECT_THAT(complaint_of_step(), HasSubstr("slot or position 70"));
}

TEST(CudaEmbedding, AQuantisedTableIsRefusedByName) {
  REQUIRE_DEVICE();
  std::mt19937 rng(8);
  Ids ids(rng);
  const SegmentRows rows(Form::decode, {{0, 0, 1}});
  const DeviceBatch batch(rows.batch());
  Twin y(DType::bf16, 1, 64);
  QuantizedMatrix table;
  table.base = y.device().base;
  table.format = QuantFormat::q8_0;
  table.rows = {kVocabulary};
  table.cols = {64};
  TestDevice& test = *TestDevice::get();
  const auto status = test.ops().embedding(test.stream(), batch.batch(), {y.device(), table, ids.at(true)});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, gpu::DeviceError::Kind::refused);
  EXPECT_THAT(status.error().what, HasSubstr("embedding: the table is q8_0"));
}

TEST(CudaGatherRows, CopiesTheNamedRowsBitForBit) {
  REQUIRE_DEVICE();
  std::mt19937 rng(9);
  for (const DType dtype : kActivationTypes) {
    for (const auto [rows, cols] : row_shapes()) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << cols << " " << gpu::to_string(dtype));
      Twin x = Twin::random(dtype, 50, cols, rng), y(dtype, rows, cols);
      std::vector<std::int32_t> picked(static_cast<std::size_t>(rows));
      for (std::int32_t& row : picked) row = static_cast<std::int32_t>(rng() % 50);
      DeviceVector<std::int32_t> on_gpu(picked);
      on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
        return ops.gather_rows(stream,
                               {y.at(device), x.at(device),
                                device ? VectorView<const std::int32_t>(on_gpu.view()) : view_of(picked)});
      });
      y.expect_equal("y");
    }
  }
}

TEST(CudaGatherRows, ARowOutsideIsNamed) {
  REQUIRE_DEVICE();
  std::mt19937 rng(10);
  for (const std::int32_t row : {-1, 5}) {
    Twin x = Twin::random(DType::bf16, 5, 24, rng), y(DType::bf16, 3, 24);
    DeviceVector<std::int32_t> picked(std::vector<std::int32_t>{4, 0, row});
    on_device([&](Ops& ops, gpu::Stream& stream) {
      return ops.gather_rows(stream, {y.device(), x.device(), picked.view()});
    });
    EXPECT_THAT(complaint_of_step(), HasSubstr("gather_rows: row 2: index " + std::to_string(row)));
  }
}

}  // namespace
}  // namespace kernels::testing
