// Every operation of the table at the shapes of Qwen3.8-Flash-Next, beside the floor that this machine sets.
// Prints a Markdown table.
//   kernel_bench [--module FILE | --backend cpu] [--only TEXT] [--seconds S] [--smoke]
#include <cstdio>
#include <string>

#include "bench/kernels/rig.h"
#include "kernels/backend_module.h"

namespace {

struct Options {
  std::string module;  // default: lib/atlas_cuda.so beside the binary
  bool on_cpu = false;
  std::string only;  // ops whose name holds this text
  double seconds = 0.06;
  bool smoke = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc) bench::fail(argument + " needs a value");
      return argv[++i];
    };
    if (argument == "--module")
      options.module = value();
    else if (argument == "--backend")
      options.on_cpu = value() == "cpu";
    else if (argument == "--only")
      options.only = value();
    else if (argument == "--seconds")
      options.seconds = std::stod(value());
    else if (argument == "--smoke")
      options.smoke = true;
    else
      bench::fail("what is " + argument + "?");
  }
  return options;
}

struct Machine {
  std::shared_ptr<gpu::Device> device;
  std::unique_ptr<kernels::Ops> ops;
};

Machine machine_of(const Options& options) {
  if (options.on_cpu) return {gpu::make_host_device(2), kernels::make_cpu_ops()};
  const auto module = kernels::load_backend_module(
      options.module.empty() ? kernels::cuda_module_path() : std::filesystem::path(options.module));
  if (!module.ok()) bench::fail(module.error().why);
  auto device = (*module)->make_device();
  if (!device.ok()) bench::fail(device.error().what);
  Machine machine;
  machine.device = *std::move(device);
  auto ops = (*module)->make_ops(*machine.device,
                                 [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  if (!ops.ok()) bench::fail(ops.error().what);
  machine.ops = *std::move(ops);
  return machine;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  Machine machine = machine_of(options);
  bench::Shapes shapes = options.smoke ? bench::smoke_shapes() : bench::Shapes{};
  if (options.on_cpu) shapes.activation = gpu::DType::f32;
  const gpu::DeviceFacts facts = machine.device->facts();
  std::printf("%s; %s\n\n", facts.name.c_str(), facts.libraries.c_str());
  bench::Rig rig(machine.device, std::move(machine.ops), shapes, options.seconds, options.only);
  bench::measure_machine(rig);
  std::printf("| op | shape | rows | µs | host µs | MB | GFLOP | floor µs | %% of floor |\n");
  std::printf("|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
  bench::bench_products(rig);
  bench::bench_rows(rig);
  bench::bench_tables(rig);
  bench::bench_attention(rig);
  bench::bench_recurrent(rig);
  bench::bench_experts(rig);
  bench::bench_sampling(rig);
  return 0;
}
