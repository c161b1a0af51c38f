#include "emulator/fatbin/cubin.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <span>
#include <vector>

#include "emulator/fatbin/bytes.hpp"

namespace stagecraft::emulator::fatbin {
namespace {

// Entries of `.nv.info`: a byte for the format, a byte for the attribute, and then, in the one format that is read
// here, 16 bits of size and as many bytes. In the others the next two bytes are the value.
constexpr uint8_t kFormatSized = 4;
constexpr uint8_t kAttributeRegisterCount = 0x2f;  // symbol, registers: 32 bits each

[[noreturn]] void corrupt_code(std::string message) {
  throw Error(ErrorKind::corrupt, "machine code in the fat binary: " + std::move(message));
}

/// The sections of an image. Each was checked to be within the image.
class Sections {
 public:
  explicit Sections(std::string_view elf) : bytes_(std::as_bytes(std::span(elf.data(), elf.size()))) {
    if (!has_range(bytes_, 0, sizeof(Elf64_Ehdr)) || !elf.starts_with(ELFMAG) || elf[EI_CLASS] != ELFCLASS64 ||
        elf[EI_DATA] != ELFDATA2LSB) {
      corrupt_code("not a 64-bit little-endian ELF image");
    }
    const auto header = read_at<Elf64_Ehdr>(bytes_, 0);
    const uint64_t table_bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
    if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr) ||
        !has_range(bytes_, header.e_shoff, table_bytes) || header.e_shstrndx >= header.e_shnum) {
      corrupt_code(fmt::format("its table of {} sections does not fit in {} bytes", header.e_shnum, elf.size()));
    }
    for (uint32_t index = 0; index < header.e_shnum; ++index) {
      headers_.push_back(read_at<Elf64_Shdr>(bytes_, header.e_shoff + index * sizeof(Elf64_Shdr)));
    }
    names_ = content(header.e_shstrndx);
  }

  /// Number of the first section of this name, or 0, which is never a real one.
  uint32_t find(std::string_view name) const {
    for (uint32_t index = 1; index < headers_.size(); ++index) {
      if (text_at(names_, headers_[index].sh_name) == name) return index;
    }
    return 0;
  }

  std::span<const std::byte> content(uint32_t index) const {
    if (index >= headers_.size() || headers_[index].sh_type == SHT_NOBITS ||
        !has_range(bytes_, headers_[index].sh_offset, headers_[index].sh_size)) {
      corrupt_code(fmt::format("section {} is not within its {} bytes", index, bytes_.size()));
    }
    return bytes_.subspan(headers_[index].sh_offset, headers_[index].sh_size);
  }
  uint32_t link_of(uint32_t index) const { return headers_[index].sh_link; }

  /// The zero-terminated text at an offset of a string table.
  static std::string_view text_at(std::span<const std::byte> table, uint64_t offset) {
    if (offset >= table.size())
      corrupt_code(fmt::format("a name at byte {} of {} bytes of names", offset, table.size()));
    const std::string_view rest(reinterpret_cast<const char*>(table.data()) + offset, table.size() - offset);
    return rest.substr(0, rest.find('\0'));
  }

 private:
  std::span<const std::byte> bytes_;
  std::vector<Elf64_Shdr> headers_;
  std::span<const std::byte> names_;
};

}  // namespace

std::map<std::string, uint32_t> read_register_counts(std::string_view elf) {
  const Sections sections(elf);
  const uint32_t info_section = sections.find(".nv.info");
  const uint32_t symbol_section = sections.find(".symtab");
  std::map<std::string, uint32_t> registers;
  if (info_section == 0 || symbol_section == 0) return registers;

  const std::span<const std::byte> info = sections.content(info_section);
  const std::span<const std::byte> symbols = sections.content(symbol_section);
  const std::span<const std::byte> names = sections.content(sections.link_of(symbol_section));
  for (uint64_t at = 0; at < info.size();) {
    if (!has_range(info, at, 4)) corrupt_code(fmt::format(".nv.info ends within its entry at byte {}", at));
    const auto format = read_at<uint8_t>(info, at);
    const auto attribute = read_at<uint8_t>(info, at + 1);
    const uint64_t size = format == kFormatSized ? read_at<uint16_t>(info, at + 2) : 0;
    at += 4;
    if (!has_range(info, at, size)) {
      corrupt_code(fmt::format(".nv.info has an entry of {} bytes where {} remain", size, info.size() - at));
    }
    if (attribute == kAttributeRegisterCount && size == 8) {
      const uint64_t symbol_offset = uint64_t{read_at<uint32_t>(info, at)} * sizeof(Elf64_Sym);
      if (!has_range(symbols, symbol_offset, sizeof(Elf64_Sym)))
        corrupt_code(".nv.info names a symbol that is not there");
      const auto symbol = read_at<Elf64_Sym>(symbols, symbol_offset);
      registers.emplace(Sections::text_at(names, symbol.st_name), read_at<uint32_t>(info, at + 4));
    }
    at += size;
  }
  return registers;
}

}  // namespace stagecraft::emulator::fatbin
