#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/cuda_emulator/grid.h"

namespace cuda_emulator {
namespace {

std::string readable(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  if (status != 0) return name;
  const std::string result = text;
  std::free(text);
  return result;
}

/// Kernels are local symbols, which dladdr does not know: the file's own table does.
std::string symbol_in(const std::vector<char>& file, std::uintptr_t offset) {
  const auto at = [&](std::uint64_t from) { return file.data() + from; };
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return {};
  std::memcpy(&header, at(0), sizeof(header));
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, names;
    std::memcpy(&section, at(header.e_shoff + std::uint64_t(i) * sizeof(section)), sizeof(section));
    if (section.sh_type != SHT_SYMTAB) continue;
    std::memcpy(&names, at(header.e_shoff + section.sh_link * sizeof(names)), sizeof(names));
    for (std::uint64_t s = 0; s < section.sh_size; s += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, at(section.sh_offset + s), sizeof(symbol));
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value == offset) {
        return readable(at(names.sh_offset + symbol.st_name));
      }
    }
  }
  return {};
}

}  // namespace

std::string kernel_name(const void* kernel) {
  Dl_info info;
  if (dladdr(kernel, &info) != 0 && info.dli_fname != nullptr) {
    std::ifstream stream(info.dli_fname, std::ios::binary);
    const std::vector<char> file{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    const auto offset =
        reinterpret_cast<std::uintptr_t>(kernel) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    const std::string name = symbol_in(file, offset);
    if (!name.empty()) return name;
  }
  char address[32];
  std::snprintf(address, sizeof(address), "the kernel at %p", kernel);
  return address;
}

}  // namespace cuda_emulator
