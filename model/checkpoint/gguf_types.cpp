#include "model/checkpoint/gguf_types.h"

#include <algorithm>
#include <iterator>

namespace model {
namespace gguf {

std::size_t width_of(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

std::optional<std::int64_t> integer_at(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::u8:
      return read_at<std::uint8_t>(from);
    case GgufType::i8:
      return read_at<std::int8_t>(from);
    case GgufType::u16:
      return read_at<std::uint16_t>(from);
    case GgufType::i16:
      return read_at<std::int16_t>(from);
    case GgufType::u32:
      return read_at<std::uint32_t>(from);
    case GgufType::i32:
      return read_at<std::int32_t>(from);
    case GgufType::u64:
      return static_cast<std::int64_t>(read_at<std::uint64_t>(from));
    case GgufType::i64:
      return read_at<std::int64_t>(from);
    default:
      return std::nullopt;
  }
}

const TensorTypeName* tensor_type(std::uint32_t number) {
  using gpu::DType;
  using kernels::QuantFormat;
  static const TensorTypeName types[] = {
      {0, "F32", DType::f32},
      {1, "F16", DType::f16},
      {2, "Q4_0", QuantFormat::q4_0},
      {3, "Q4_1", QuantFormat::q4_1},
      {6, "Q5_0", QuantFormat::q5_0},
      {7, "Q5_1", QuantFormat::q5_1},
      {8, "Q8_0", QuantFormat::q8_0},
      {9, "Q8_1", {}},
      {10, "Q2_K", {}},
      {11, "Q3_K", {}},
      {12, "Q4_K", QuantFormat::q4_k},
      {13, "Q5_K", QuantFormat::q5_k},
      {14, "Q6_K", QuantFormat::q6_k},
      {15, "Q8_K", {}},
      {16, "IQ2_XXS", {}},
      {17, "IQ2_XS", {}},
      {18, "IQ3_XXS", {}},
      {19, "IQ1_S", {}},
      {20, "IQ4_NL", {}},
      {21, "IQ3_S", {}},
      {22, "IQ2_S", {}},
      {23, "IQ4_XS", {}},
      {24, "I8", {}},
      {25, "I16", {}},
      {26, "I32", {}},
      {27, "I64", {}},
      {28, "F64", {}},
      {29, "IQ1_M", {}},
      {30, "BF16", DType::bf16},
      {34, "TQ1_0", {}},
      {35, "TQ2_0", {}},
      {39, "MXFP4", {}},
      {40, "NVFP4", {}},
  };
  const auto found = std::find_if(std::begin(types), std::end(types),
                                  [&](const TensorTypeName& type) { return type.number == number; });
  return found == std::end(types) ? nullptr : found;
}

}  // namespace gguf

std::vector<std::string_view> GgufArray::strings() const {
  std::vector<std::string_view> all;
  if (type != GgufType::string) return all;
  all.reserve(static_cast<std::size_t>(size));
  const std::byte* from = bytes.data();
  for (std::int64_t i = 0; i < size; ++i) {
    const auto length = static_cast<std::size_t>(gguf::read_at<std::uint64_t>(from));
    from += sizeof(std::uint64_t);
    all.emplace_back(reinterpret_cast<const char*>(from), length);
    from += length;
  }
  return all;
}

std::vector<std::int64_t> GgufArray::integers() const {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto value =
        gguf::integer_at(type, bytes.data() + static_cast<std::size_t>(i) * gguf::width_of(type));
    if (!value) break;
    all.push_back(*value);
  }
  return all;
}

}  // namespace model
