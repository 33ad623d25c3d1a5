#pragma once

#include <cstdint>

namespace kernels {

/// The constants of one layer's n-gram hash (model-spec 5.1).
struct NgramConstants {
  const std::int64_t* multipliers;  ///< [ngram_size]
  const std::int64_t* sizes;        ///< [heads]
  const std::int64_t* offsets;      ///< [heads]
  std::int32_t ngram_size = 0, heads_per_ngram = 0;
  std::int32_t eos = 0;
};

/// The mixes of one position, order by order (model-spec 5.2): the one formula of both backends' ops and of
/// the host, which has to know rows before the device does. Products and xor wrap in 64 unsigned bits; an id
/// is sign-extended into them.
class NgramMix {
 public:
  /// `ids` is the sequence's row of ids.
  constexpr NgramMix(const NgramConstants& hash, const std::int32_t* ids, std::int32_t position)
      : multipliers_(hash.multipliers),
        ids_(ids),
        position_(position),
        eos_(hash.eos),
        mix_(product(ids[position], 0)) {}

  /// Takes in one token more, further back: called s times it gives the mix of order s + 1. An eos, or the
  /// sequence's start, hides everything before it; the id at the position itself never does.
  constexpr std::uint64_t extend() {
    ++length_;
    cut_ = cut_ || length_ > position_ || ids_[position_ - length_] == eos_;
    mix_ ^= product(cut_ ? eos_ : ids_[position_ - length_], length_);
    return mix_;
  }

 private:
  constexpr std::uint64_t product(std::int32_t id, std::int32_t index) const {
    return static_cast<std::uint64_t>(std::int64_t{id}) * static_cast<std::uint64_t>(multipliers_[index]);
  }

  const std::int64_t* multipliers_;
  const std::int32_t* ids_;
  std::int32_t position_, eos_;
  std::int32_t length_ = 0;
  bool cut_ = false;
  std::uint64_t mix_;
};

/// The table row of a head, from the mix of its order.
constexpr std::int64_t ngram_row(const NgramConstants& hash, std::uint64_t mix, std::int32_t head) {
  return static_cast<std::int64_t>(mix % static_cast<std::uint64_t>(hash.sizes[head])) + hash.offsets[head];
}

/// The rows of all heads of a position. There is no unigram head.
constexpr void ngram_rows_at(const NgramConstants& hash, const std::int32_t* ids, std::int32_t position,
                             std::int64_t* rows) {
  NgramMix mix(hash, ids, position);
  std::int32_t head = 0;
  for (std::int32_t order = 2; order <= hash.ngram_size; ++order) {
    const std::uint64_t mixed = mix.extend();
    for (std::int32_t i = 0; i < hash.heads_per_ngram; ++i, ++head) rows[head] = ngram_row(hash, mixed, head);
  }
}

}  // namespace kernels
