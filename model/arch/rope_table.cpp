#include <algorithm>
#include <cmath>

#include "model/arch/model_config.h"

namespace model {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// theta^(2i / dim) as the reference computes it: exponent and power in fp32.
float power(const RopeConfig& config, std::int32_t i) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.rotary_dim);
  return std::pow(static_cast<float>(config.theta), exponent);
}

/// Long waves are slowed down by `factor`, short ones kept, those between interpolated.
float llama3_frequency(const RopeConfig& config, float frequency) {
  const auto original = static_cast<double>(config.original_max_positions);
  const auto longest_kept = static_cast<float>(original / config.high_freq_factor);
  const auto shortest_slowed = static_cast<float>(original / config.low_freq_factor);
  const auto factor = static_cast<float>(config.factor);
  const float wavelength = static_cast<float>(2.0 * kPi) / frequency;
  if (wavelength > shortest_slowed) return frequency / factor;
  if (wavelength < longest_kept) return frequency;
  const float smooth =
      (static_cast<float>(original) / wavelength - static_cast<float>(config.low_freq_factor)) /
      static_cast<float>(config.high_freq_factor - config.low_freq_factor);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

/// The (fractional) frequency index whose wave turns `rotations` times within the original context.
double yarn_correction(const RopeConfig& config, double rotations) {
  return config.rotary_dim * std::log(config.original_max_positions / (rotations * 2.0 * kPi)) /
         (2.0 * std::log(config.theta));
}

void yarn_frequencies(const RopeConfig& config, std::vector<float>& inv_freq) {
  const double low = std::max(std::floor(yarn_correction(config, config.beta_fast)), 0.0);
  double high = std::min(std::ceil(yarn_correction(config, config.beta_slow)), config.rotary_dim - 1.0);
  if (low == high) high += 0.001;  // the reference's way round a division by zero
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const float frequency_power = power(config, static_cast<std::int32_t>(i));
    const float kept = 1.0F / frequency_power;
    const float slowed = 1.0F / (static_cast<float>(config.factor) * frequency_power);
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F, 1.0F);
    const float weight = 1.0F - ramp;
    inv_freq[i] = slowed * (1.0F - weight) + kept * weight;
  }
}

double yarn_attention_factor(const RopeConfig& config) {
  const auto scale = [&](double mscale) {
    return config.factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(config.factor) + 1.0;
  };
  if (config.attention_factor > 0.0) return config.attention_factor;
  if (config.mscale > 0.0 && config.mscale_all_dim > 0.0)
    return scale(config.mscale) / scale(config.mscale_all_dim);
  return scale(1.0);
}

}  // namespace

RopeTable make_rope_table(const RopeConfig& config) {
  RopeTable table;
  table.inv_freq.resize(static_cast<std::size_t>(config.rotary_dim / 2));
  for (std::size_t i = 0; i < table.inv_freq.size(); ++i) {
    table.inv_freq[i] = 1.0F / power(config, static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < config.frequency_divisors.size() && i < table.inv_freq.size(); ++i) {
    table.inv_freq[i] /= config.frequency_divisors[i];
  }
  if (config.type == RopeConfig::Type::llama3) {
    for (float& frequency : table.inv_freq) frequency = llama3_frequency(config, frequency);
  }
  if (config.type == RopeConfig::Type::yarn) {
    yarn_frequencies(config, table.inv_freq);
    table.attention_factor = static_cast<float>(yarn_attention_factor(config));
  }
  return table;
}

}  // namespace model
