#include "tests/device/test_device.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace kernels::testing {

namespace {
const char* named_module() { return std::getenv("ATLAS_DEVICE_MODULE"); }
}  // namespace

struct TestDeviceMaker {
  std::unique_ptr<TestDevice> device;
  std::string why_not;

  TestDeviceMaker() { make(); }

  void make() {
    const char* const named = named_module();
    const std::filesystem::path file = named != nullptr ? std::filesystem::path(named) : cuda_module_path();
    auto made = std::make_unique<TestDevice>();
    auto module = load_backend_module(file);
    if (!module.ok()) return fail(module.error().why);
    made->module_ = *module;
    made->emulated_ = std::string(made->module_->name) == "cuda-emulator";
    made->small_ = made->emulated_ || std::getenv("ATLAS_DEVICE_SMALL") != nullptr;
    auto of_module = made->module_->make_device();
    if (!of_module.ok()) return fail(of_module.error().what);
    made->device_ = *std::move(of_module);
    auto stream = made->device_->create_stream();
    if (!stream.ok()) return fail(stream.error().what);
    made->stream_ = *std::move(stream);
    TestDevice* const self = made.get();
    made->ops_ = made->make_ops([self](const std::string& line) { self->warnings_.push_back(line); });
    if (made->ops_ == nullptr) return fail("its operations could not be made");
    made->host_ = gpu::make_host_device(2);
    made->host_stream_ = *made->host_->create_stream();
    made->cpu_ = make_cpu_ops();
    device = std::move(made);
  }
  void fail(std::string why) { why_not = std::move(why); }
};

namespace {
TestDeviceMaker& maker() {
  // Never destroyed: the runtime may be gone before static objects are.
  static TestDeviceMaker* const made = new TestDeviceMaker;
  return *made;
}
}  // namespace

TestDevice* TestDevice::get() { return maker().device.get(); }
const std::string& TestDevice::why_not() { return maker().why_not; }
bool TestDevice::is_required() { return named_module() != nullptr; }
std::unique_ptr<Ops> TestDevice::make_ops(BackendLog warn) {
  auto made = module_->make_ops(*device_, std::move(warn));
  if (!made.ok()) {
    ADD_FAILURE() << made.error().what;
    return nullptr;
  }
  if (std::getenv("ATLAS_DEVICE_OWN_PRODUCTS") != nullptr)
    (*made)->refuse_products(std::numeric_limits<int>::max());
  return *std::move(made);
}
std::vector<std::string> TestDevice::take_warnings() { return std::exchange(warnings_, {}); }

OnDevice::OnDevice(const void* host, std::size_t bytes) : bytes_(bytes) {
  TestDevice& test = *TestDevice::get();
  auto buffer = test.device().allocate({static_cast<std::int64_t>(bytes)}, "test operand");
  if (!buffer.ok()) {
    ADD_FAILURE() << buffer.error().what;
    std::abort();
  }
  buffer_ = *std::move(buffer);
  const auto copied =
      test.stream().copy_to_device(buffer_.base(), host, {static_cast<std::int64_t>(bytes)}, "test operand");
  EXPECT_TRUE(copied.ok()) << (copied.ok() ? "" : copied.error().what);
}

void OnDevice::download(void* to) const {
  gpu::Stream& stream = TestDevice::get()->stream();
  const auto copied =
      stream.copy_to_host(to, buffer_.base(), {static_cast<std::int64_t>(bytes_)}, "test result");
  EXPECT_TRUE(copied.ok()) << (copied.ok() ? "" : copied.error().what);
  const auto done = stream.synchronize();
  EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().what);
}

namespace {
std::vector<std::int32_t> copy_of(const gpu::VectorView<const std::int32_t>& view) {
  return {view.base, view.base + view.size.n};
}
}  // namespace

DeviceBatch::DeviceBatch(const RowBatch& host)
    : batch_(host),
      row_slot_(copy_of(host.row_slot)),
      row_position_(copy_of(host.row_position)),
      segment_slot_(copy_of(host.segment_slot)),
      segment_first_row_(copy_of(host.segment_first_row)),
      segment_num_rows_(copy_of(host.segment_num_rows)) {
  batch_.row_slot = row_slot_.view();
  batch_.row_position = row_position_.view();
  batch_.segment_slot = segment_slot_.view();
  batch_.segment_first_row = segment_first_row_.view();
  batch_.segment_num_rows = segment_num_rows_.view();
}

double relative_error(const OpMatrix& a, const OpMatrix& b) {
  double difference = 0.0, size = 0.0;
  for (std::int64_t r = 0; r < b.rows(); ++r) {
    for (std::int64_t c = 0; c < b.cols(); ++c) {
      const double d = a.at(r, c) - b.at(r, c);
      if (std::isnan(d)) return std::numeric_limits<double>::infinity();
      difference += d * d;
      size += b.at(r, c) * b.at(r, c);
    }
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
}

}  // namespace kernels::testing
