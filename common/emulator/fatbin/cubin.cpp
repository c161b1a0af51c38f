#include "emulator/fatbin/cubin.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <span>

#include "emulator/fatbin/bytes.hpp"

namespace stagecraft::emulator::fatbin {
namespace {

[[noreturn]] void corrupt(std::string message) {
  throw Error(ErrorKind::corrupt, "machine code in the fat binary: " + std::move(message));
}

}  // namespace

std::map<std::string, uint32_t> read_register_counts(std::string_view elf) {
  const std::span bytes = std::as_bytes(std::span(elf.data(), elf.size()));
  if (!has_range(bytes, 0, sizeof(Elf64_Ehdr)) ||
      !elf.starts_with(std::string_view("\x7f"
                                        "ELF",
                                        4)) ||
      elf[EI_CLASS] != ELFCLASS64 || elf[EI_DATA] != ELFDATA2LSB) {
    corrupt("not a 64-bit little-endian ELF image");
  }
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (header.e_shnum == 0) return {};
  const uint64_t table_bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (header.e_shentsize != sizeof(Elf64_Shdr) || !has_range(bytes, header.e_shoff, table_bytes) ||
      header.e_shstrndx >= header.e_shnum) {
    corrupt(fmt::format("its table of {} sections does not fit in {} bytes", header.e_shnum, elf.size()));
  }
  const auto section = [&](uint32_t index) {
    return read_at<Elf64_Shdr>(bytes, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  if (!has_range(bytes, names.sh_offset, names.sh_size)) corrupt("its section names lie outside of it");
  const std::string_view name_table = elf.substr(names.sh_offset, names.sh_size);

  constexpr std::string_view kPrefix = ".text.";
  std::map<std::string, uint32_t> registers;
  for (uint32_t index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr entry = section(index);
    if (entry.sh_name >= name_table.size()) corrupt(fmt::format("section {} has its name outside of it", index));
    std::string_view name = name_table.substr(entry.sh_name);
    name = name.substr(0, name.find('\0'));
    if (name.starts_with(kPrefix)) registers.emplace(name.substr(kPrefix.size()), entry.sh_info >> 24);
  }
  return registers;
}

}  // namespace stagecraft::emulator::fatbin
