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

/// An ELF image with a section `.text.<name>` for each kernel, its registers in sh_info as ptxas writes them.
inline std::string make_cubin(const std::map<std::string, uint32_t>& registers) {
  std::string names(1, '\0');
  std::vector<Elf64_Shdr> sections(1);
  for (const auto& [kernel, count] : registers) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<uint32_t>(names.size());
    section.sh_type = SHT_PROGBITS;
    section.sh_info = count << 24 | 7;
    names += ".text." + kernel;
    names += '\0';
    sections.push_back(section);
  }
  Elf64_Shdr name_section{};
  name_section.sh_type = SHT_STRTAB;
  name_section.sh_offset = sizeof(Elf64_Ehdr);
  name_section.sh_size = names.size();
  sections.push_back(name_section);

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shoff = sizeof header + names.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);

  std::string image;
  append_bytes(image, &header, sizeof header);
  image += names;
  for (const Elf64_Shdr& section : sections) append_bytes(image, &section, sizeof section);
  return image;
}

}  // namespace stagecraft::emulator::fatbin
