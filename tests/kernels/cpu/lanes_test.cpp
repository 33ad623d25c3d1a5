#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#define HWY_WANT_AVX3_DL
#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/lanes_test.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Everything a target computes from the same inputs, to be compared bit by bit.
void all_of(const float* x, const float* w, const gpu::f16* half, const gpu::bf16* brain, std::int64_t n,
            std::vector<float>* out) {
  for (std::int64_t k = 0; k <= n; ++k) {
    out->push_back(dot(x, w, k));
    out->push_back(dot(x, half, k));
    out->push_back(dot(x, brain, k));
  }
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i + 16 <= n; i += 16) {
    for (const Lanes16 v :
         {exp(load(x + i)), sigmoid(load(x + i)), silu(load(x + i)), div(load(x + i), load(w + i)),
          max(load(x + i), load(w + i)), min(load(x + i), load(w + i)), sqrt(exp(load(x + i))),
          load(half + i), load(brain + i)}) {
      float lanes[16];
      store(v, lanes);
      out->insert(out->end(), lanes, lanes + 16);
    }
    out->push_back(sum(load(x + i)));
    out->push_back(max_lane(load(x + i)));
  }
  for (std::int64_t i = 0; i < n; ++i) {
    out->push_back(exp1(x[i]));
    out->push_back(sigmoid1(x[i]));
    out->push_back(silu1(x[i]));
    out->push_back(softplus1(x[i]));
  }
  add_scaled(0.37F, x, values.data(), n);
  add_scaled(-1.7F, brain, values.data(), n);
  out->insert(out->end(), values.begin(), values.end());
}
void exp_of(const float* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp1(x[i]);
}
void widen(const gpu::f16* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i + 16 <= n; i += 16) store(load(x + i), y + i);
}
int parts() { return kParts; }
std::int64_t target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/kernels/cpu/every_target.h"

namespace kernels::cpu {
namespace {
HWY_EXPORT(all_of);
HWY_EXPORT(exp_of);
HWY_EXPORT(widen);
HWY_EXPORT(parts);
HWY_EXPORT(target);

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(Lanes, EveryTargetGivesTheSameBits) {
  std::mt19937 random(20240607);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> x(272), w(272);
  std::vector<gpu::f16> half(272);
  std::vector<gpu::bf16> brain(272);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = normal(random);
    w[i] = normal(random);
    half[i].bits = static_cast<std::uint16_t>(random() & 0xBBFFU);  // finite
    brain[i].bits = static_cast<std::uint16_t>(bits(normal(random)) >> 16);
  }
  const float edges[] = {0.0F,
                         -0.0F,
                         88.7F,
                         88.73F,
                         200.0F,
                         -87.4F,
                         -95.0F,
                         -103.9F,
                         -104.0F,
                         -1e30F,
                         1e-30F,
                         1e30F,
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         1e-42F,
                         -1.0F};
  std::copy(std::begin(edges), std::end(edges), x.begin() + 256);
  std::vector<std::pair<std::string, std::vector<float>>> results;
  testing::for_every_target([&](const char* name) {
    std::vector<float> out;
    HWY_DYNAMIC_DISPATCH(all_of)(x.data(), w.data(), half.data(), brain.data(), 272, &out);
    results.emplace_back(name, std::move(out));
  });
  for (const auto& [name, values] : results) {
    ASSERT_EQ(values.size(), results[0].second.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i]) && std::isnan(results[0].second[i])) continue;
      ASSERT_EQ(bits(values[i]), bits(results[0].second[i]))
          << name << " against " << results[0].first << ", value " << i;
    }
  }
}

TEST(Lanes, TheLoopOverTargetsReachesEachOne) {
  std::set<std::int64_t> seen;
  bool fallback_seen = false;
  std::size_t num_targets = 0;
  testing::for_every_target([&](const char* name) {
    ++num_targets;
    seen.insert(HWY_DYNAMIC_DISPATCH(target)());
    fallback_seen |= HWY_DYNAMIC_DISPATCH(parts)() == 16;
    RecordProperty("target", name);
  });
  EXPECT_TRUE(fallback_seen) << "the scalar fallback is always generated";
  EXPECT_EQ(seen.size(), num_targets) << "each turn runs code of another target";
}

TEST(Lanes, ExpIsWithinTwoUnitsInTheLastPlace) {
  std::vector<float> x, y;
  for (float v = -103.0F; v < 88.7F; v += 0.00371F) x.push_back(v);
  y.resize(x.size());
  HWY_DYNAMIC_DISPATCH(exp_of)(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    const double unit = std::max(std::ldexp(1.0, std::ilogb(exact) - 23), std::ldexp(1.0, -149));
    ASSERT_LE(std::abs(y[i] - exact), 2.0 * unit) << "x = " << x[i];
  }
}

TEST(Lanes, ExpAtItsEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-infinity, -200.0F, 0.0F, 89.0F, infinity, std::nanf("")};
  std::vector<float> y(x.size());
  testing::for_every_target([&](const char* name) {
    HWY_DYNAMIC_DISPATCH(exp_of)(x.data(), y.data(), 6);
    EXPECT_EQ(y[0], 0.0F) << name;
    EXPECT_EQ(y[1], 0.0F) << name;
    EXPECT_EQ(y[2], 1.0F) << name;
    EXPECT_EQ(y[3], infinity) << name;
    EXPECT_EQ(y[4], infinity) << name;
    EXPECT_TRUE(std::isnan(y[5])) << name;
  });
}

TEST(Lanes, EveryFiniteHalfIsWidenedExactly) {
  std::vector<gpu::f16> x(65536);
  std::vector<float> y(65536);
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
  testing::for_every_target([&](const char* name) {
    HWY_DYNAMIC_DISPATCH(widen)(x.data(), y.data(), 65536);
    for (int i = 0; i < 65536; ++i) {
      const int exponent = (i >> 10) & 31, fraction = i & 1023;
      const double sign = i & 0x8000 ? -1.0 : 1.0;
      const float got = y[static_cast<std::size_t>(i)];
      if (exponent == 31) {
        ASSERT_TRUE(fraction != 0 ? std::isnan(got)
                                  : got == static_cast<float>(sign) * std::numeric_limits<float>::infinity())
            << name << " " << i;
      } else {
        const double exact = exponent == 0 ? sign * std::ldexp(fraction, -24)
                                           : sign * std::ldexp(1024 + fraction, exponent - 25);
        ASSERT_EQ(got, static_cast<float>(exact)) << name << " " << i;
      }
    }
  });
}

}  // namespace
}  // namespace kernels::cpu
#endif
