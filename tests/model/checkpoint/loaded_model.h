#pragma once

#include <gtest/gtest.h>

#include <map>

#include "model/checkpoint/loader.h"
#include "model/checkpoint/widen.h"
#include "tests/model/checkpoint/test_checkpoint.h"

namespace model::testing_checkpoint {

inline const fs::path kFixtures = ATLAS_FIXTURES;
inline const fs::path kMini = fs::path(ATLAS_MODELS) / "atlas-mini";

struct Loaded {
  std::unique_ptr<gpu::Device> device = gpu::make_host_device(1);
  std::unique_ptr<gpu::Stream> stream = std::move(device->create_stream()).value();
  ModelFolder folder;
  ModelWeights weights;
  std::vector<double> fractions;
  std::vector<std::string> notices;
  std::vector<std::string> problems;
};

inline std::unique_ptr<Loaded> load(const fs::path& path, LoadFormat format = LoadFormat::automatic,
                                    std::optional<gpu::DType> matrices = std::nullopt,
                                    PleTables tables = PleTables::resident) {
  auto loaded = std::make_unique<Loaded>();
  auto folder = open_model_folder(path);
  if (!folder.ok()) {
    loaded->problems = folder.error().problems;
    return loaded;
  }
  loaded->folder = std::move(folder).value();
  const LoadProgress progress{[&](double fraction) { loaded->fractions.push_back(fraction); },
                              [&](std::string_view line) { loaded->notices.emplace_back(line); }};
  auto weights =
      load_weights(loaded->folder, format, *loaded->device, *loaded->stream, progress, matrices, tables);
  if (weights.ok()) {
    loaded->weights = std::move(weights).value();
  } else {
    loaded->problems = weights.error().problems;
  }
  return loaded;
}

inline std::vector<float> values(gpu::ConstMatrix m) {
  EXPECT_EQ(m.pitch, m.cols);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(m.base) % 256, 0U);
  return widen(m.base, m.dtype, m.rows.n * m.cols.n);
}
inline std::vector<float> values(gpu::ConstVector v) {
  EXPECT_EQ(v.dtype, gpu::DType::f32);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(v.base) % 256, 0U);
  return widen(v.base, v.dtype, v.size.n);
}
inline std::vector<float> values(const Weight& w) { return values(w.matrix); }

/// Tensors of all files of a folder as f32.
class Reference {
 public:
  explicit Reference(const fs::path& folder) {
    for (const auto& item : fs::directory_iterator(folder)) {
      if (item.path().extension() != ".safetensors" || item.path().filename() == "expected.safetensors")
        continue;
      for (TestTensor& tensor : TestFile::read(item.path(), TestFile::Data::all).tensors)
        tensors_[tensor.name] = std::move(tensor);
    }
  }
  std::vector<float> operator[](const std::string& name) const {
    const TestTensor& tensor = tensors_.at(name);
    const gpu::DType dtype = tensor.dtype == "F32"   ? gpu::DType::f32
                             : tensor.dtype == "F16" ? gpu::DType::f16
                                                     : gpu::DType::bf16;
    return widen(reinterpret_cast<const std::byte*>(tensor.data.data()), dtype,
                 static_cast<std::int64_t>(tensor.data.size()) / gpu::size_of(dtype));
  }

 private:
  std::map<std::string, TestTensor> tensors_;
};

inline std::vector<float> joined(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// A copy of a fixture with one file, to be changed before it is written.
class ChangedModel {
 public:
  explicit ChangedModel(const char* fixture, TestFile::Data keep = TestFile::Data::hashes)
      : file(TestFile::read(kFixtures / fixture / "model.safetensors", keep)),
        config(nlohmann::json::parse(read_file(kFixtures / fixture / "config.json"))) {}
  ChangedModel(TestFile whole, nlohmann::json with) : file(std::move(whole)), config(std::move(with)) {}
  std::vector<std::string> problems() { return loaded()->problems; }
  std::unique_ptr<Loaded> loaded() {
    file.write(folder_.path() / "model.safetensors");
    write_file(folder_.path() / "config.json", config.dump());
    return load(folder_.path());
  }

  /// Where `loaded` has written it.
  const fs::path& folder() const { return folder_.path(); }

  TestFile file;
  nlohmann::json config;

 private:
  TempFolder folder_;
};

}  // namespace model::testing_checkpoint
