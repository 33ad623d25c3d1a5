#pragma once

#include <cstdint>
#include <filesystem>

namespace bench {

/// Writes a model into `folder`: atlas-mini's shape but for its n-gram table, which has rows of the real
/// model (160 numbers of bf16) and about `table_bytes` of them. Every byte is written: nothing is a hole. The
/// numbers are random.
void write_rows_model(const std::filesystem::path& folder, std::int64_t table_bytes);

}  // namespace bench
