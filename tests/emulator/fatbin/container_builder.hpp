// Fat binaries made by hand, as nvcc lays them out.
#pragma once

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "emulator/fatbin/container.hpp"

namespace stagecraft::emulator::fatbin {

inline void append_bytes(std::string& to, const void* from, size_t size) {
  to.append(static_cast<const char*>(from), size);
}
template <typename T>
void append_number(std::string& to, T value) {
  append_bytes(to, &value, sizeof value);
}

class ContainerBuilder {
 public:
  ContainerBuilder& add(EntryKind kind, Target target, const std::string& content,
                        Compression compression = Compression::none) {
    std::string payload = content;
    uint64_t flags = 0x11;
    if (compression == Compression::zstd) {
      payload.resize(ZSTD_compressBound(content.size()));
      payload.resize(ZSTD_compress(payload.data(), payload.size(), content.data(), content.size(), 3));
      flags |= 0x8000;
    } else if (compression == Compression::lz4_block) {
      payload.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(content.size()))));
      payload.resize(static_cast<size_t>(LZ4_compress_default(
          content.data(), payload.data(), static_cast<int>(content.size()), static_cast<int>(payload.size()))));
      flags |= 0x2000;
    }
    if (target.kind == TargetKind::exact) flags |= 0x100000;
    if (target.kind == TargetKind::family) flags |= 0x200000;
    const auto compressed = static_cast<uint32_t>(compression == Compression::none ? 0 : payload.size());
    payload.resize((payload.size() + 7) / 8 * 8);

    append_number<uint16_t>(entries_, static_cast<uint16_t>(kind));
    append_number<uint16_t>(entries_, 0x0101);
    append_number<uint32_t>(entries_, 0x50);  // header
    append_number<uint64_t>(entries_, payload.size());
    append_number<uint32_t>(entries_, compressed);
    append_number<uint32_t>(entries_, 0x40);  // options
    append_number<uint16_t>(entries_, 0);
    append_number<uint16_t>(entries_, 9);  // PTX ISA 9.0
    append_number<uint32_t>(entries_, target.sm);
    append_number<uint32_t>(entries_, 0);
    append_number<uint32_t>(entries_, 0);
    append_number<uint64_t>(entries_, flags);
    append_number<uint64_t>(entries_, 0);
    append_number<uint64_t>(entries_, compression == Compression::none ? 0 : content.size());
    entries_.resize((entries_.size() + 0x10));  // options
    entries_ += payload;
    return *this;
  }

  std::string build() const {
    std::string bytes;
    append_number<uint32_t>(bytes, kContainerMagic);
    append_number<uint16_t>(bytes, 1);
    append_number<uint16_t>(bytes, 16);
    append_number<uint64_t>(bytes, entries_.size());
    return bytes + entries_;
  }

 private:
  std::string entries_;
};

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Puts together an ELF image. Sections are numbered from 1; the first are the names of sections and those of symbols.
class ElfBuilder {
 public:
  ElfBuilder() {
    add_section("", 0, 0, {});
    add_section("", SHT_STRTAB, 0, {});
    add_section("", SHT_STRTAB, 0, {});
  }
  /// Returns the section's number.
  uint32_t add_section(const std::string& name, uint32_t type, uint32_t link, std::string bytes) {
    Elf64_Shdr section{};
    if (!name.empty()) {
      section.sh_name = static_cast<uint32_t>(section_names_.size());
      section_names_ += name + '\0';
    }
    section.sh_type = type;
    section.sh_link = link;
    sections_.push_back({section, std::move(bytes)});
    return static_cast<uint32_t>(sections_.size()) - 1;
  }
  /// Returns the symbol's number.
  uint32_t add_symbol(const std::string& name, uint16_t section, uint8_t type = STT_NOTYPE, uint64_t value = 0) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<uint32_t>(names_.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_shndx = section;
    symbol.st_value = value;
    append_bytes(symbols_, &symbol, sizeof symbol);
    names_ += name + '\0';
    return static_cast<uint32_t>(symbols_.size() / sizeof symbol) - 1;
  }
  /// The number that the table of symbols will have when it is added next.
  uint32_t next_section() const { return static_cast<uint32_t>(sections_.size()); }
  std::string build() {
    add_section(".symtab", SHT_SYMTAB, 2, symbols_);
    sections_[1].second = section_names_;
    sections_[2].second = names_;
    std::string content;
    for (auto& [section, bytes] : sections_) {
      section.sh_offset = sizeof(Elf64_Ehdr) + content.size();
      section.sh_size = bytes.size();
      content += bytes;
    }
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_shoff = sizeof header + content.size();
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(sections_.size());
    header.e_shstrndx = 1;
    std::string image;
    append_bytes(image, &header, sizeof header);
    image += content;
    for (const auto& [section, bytes] : sections_) append_bytes(image, &section, sizeof section);
    return image;
  }

 private:
  std::string section_names_ = std::string(1, '\0'), names_ = section_names_;
  std::string symbols_ = std::string(sizeof(Elf64_Sym), '\0');
  std::vector<std::pair<Elf64_Shdr, std::string>> sections_;
};

/// An ELF image with the registers of each kernel in `.nv.info`, as ptxas writes it.
inline std::string make_cubin(const std::map<std::string, uint32_t>& registers) {
  ElfBuilder elf;
  std::string info;
  append_number<uint32_t>(info, 0x00001b03);  // an attribute of another format
  for (const auto& [kernel, count] : registers) {
    append_number<uint32_t>(info, 0x00082f04);
    append_number<uint32_t>(info, elf.add_symbol(kernel, 0));
    append_number<uint32_t>(info, count);
  }
  elf.add_section(".nv.info", SHT_LOPROC, elf.next_section() + 1, info);
  return elf.build();
}

}  // namespace stagecraft::emulator::fatbin
