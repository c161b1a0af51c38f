#include "emulator/fatbin/cubin.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
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
  uint32_t count() const { return static_cast<uint32_t>(headers_.size()); }
  std::string_view name_of(uint32_t index) const { return text_at(names_, headers_[index].sh_name); }
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

/// Lines by section and address, from a DWARF line program (DWARF 4, section 6.2) of one file.
class LineProgram {
 public:
  using Lines = std::map<uint32_t, std::map<uint64_t, uint32_t>>;

  /// @param sections  of the addresses in the program, by the place of the address.
  LineProgram(std::span<const std::byte> bytes, const std::map<uint64_t, uint32_t>& sections)
      : bytes_(bytes), sections_(sections) {}

  Lines run() {
    while (at_ < bytes_.size()) run_unit();
    return std::move(lines_);
  }

 private:
  static constexpr uint8_t kCopy = 1, kAdvancePc = 2, kAdvanceLine = 3, kAddConstant = 8, kFixedAdvance = 9;
  static constexpr uint8_t kEndSequence = 1, kSetAddress = 2;
  static constexpr uint16_t kFirstWithOperations = 4;  ///< version whose header has one more byte

  template <typename T>
  T take() {
    if (!has_range(bytes_, at_, sizeof(T))) corrupt_code(".nv_debug_line_sass ends within a number");
    const T value = read_at<T>(bytes_, at_);
    at_ += sizeof(T);
    return value;
  }
  uint64_t take_unsigned() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      const auto byte = take<uint8_t>();
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }
  int64_t take_signed() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64;) {
      const auto byte = take<uint8_t>();
      value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if ((byte & 0x40) != 0 && shift < 64) value |= ~uint64_t{0} << shift;
      break;
    }
    return static_cast<int64_t>(value);
  }

  void run_unit() {
    const auto size = take<uint32_t>();
    const uint64_t end = at_ + size;
    if (size > bytes_.size() - at_) corrupt_code(".nv_debug_line_sass ends within a unit");
    const auto version = take<uint16_t>();
    const auto header_size = take<uint32_t>();
    const uint64_t program = at_ + header_size;
    const auto instruction_bytes = take<uint8_t>();
    if (version >= kFirstWithOperations) take<uint8_t>();
    take<uint8_t>();  // whether rows are statements at first
    const auto line_base = take<int8_t>();
    const auto line_range = take<uint8_t>();
    const auto opcode_base = take<uint8_t>();
    if (line_range == 0 || opcode_base == 0) corrupt_code(".nv_debug_line_sass has a unit without special opcodes");
    std::vector<uint8_t> operands(opcode_base, 0);
    for (uint32_t opcode = 1; opcode < opcode_base; ++opcode) operands[opcode] = take<uint8_t>();
    at_ = program;
    uint64_t address = 0;
    uint64_t line = 1;  // modulo 2^64, whatever a damaged image has
    uint32_t section = 0;
    const auto note = [&] { lines_[section][address] = static_cast<uint32_t>(line); };
    while (at_ < end) {
      const auto opcode = take<uint8_t>();
      if (opcode >= opcode_base) {
        address += uint64_t{(opcode - uint32_t{opcode_base}) / line_range} * instruction_bytes;
        line += static_cast<uint64_t>(int64_t{line_base} + (opcode - opcode_base) % line_range);
        note();
      } else if (opcode == 0) {
        const uint64_t length = take_unsigned();
        if (length > bytes_.size() - at_) corrupt_code(".nv_debug_line_sass ends within an instruction");
        const uint64_t behind = at_ + length;
        const uint8_t extended = length == 0 ? 0 : take<uint8_t>();
        if (extended == kSetAddress) {
          const auto found = sections_.find(at_);
          section = found == sections_.end() ? 0 : found->second;
          address = take<uint64_t>();
        } else if (extended == kEndSequence) {
          line = 1;
          section = 0;
        }
        at_ = behind;
      } else if (opcode == kCopy) {
        note();
      } else if (opcode == kAdvancePc) {
        address += take_unsigned() * instruction_bytes;
      } else if (opcode == kAdvanceLine) {
        line += static_cast<uint64_t>(take_signed());
      } else if (opcode == kAddConstant) {
        address += uint64_t{(255u - opcode_base) / line_range} * instruction_bytes;
      } else if (opcode == kFixedAdvance) {
        address += take<uint16_t>();
      } else {
        for (uint32_t i = 0; i < operands[opcode]; ++i) take_unsigned();
      }
    }
    at_ = end;
  }

  std::span<const std::byte> bytes_;
  const std::map<uint64_t, uint32_t>& sections_;
  Lines lines_;
  uint64_t at_ = 0;
};

LineProgram::Lines read_lines(const Sections& sections, std::span<const std::byte> symbols) {
  const uint32_t program = sections.find(".nv_debug_line_sass");
  const uint32_t relocations = sections.find(".rela.nv_debug_line_sass");
  if (program == 0 || relocations == 0) return {};
  std::map<uint64_t, uint32_t> section_at;
  const std::span<const std::byte> table = sections.content(relocations);
  for (uint64_t at = 0; has_range(table, at, sizeof(Elf64_Rela)); at += sizeof(Elf64_Rela)) {
    const auto relocation = read_at<Elf64_Rela>(table, at);
    const uint64_t symbol_offset = ELF64_R_SYM(relocation.r_info) * sizeof(Elf64_Sym);
    if (!has_range(symbols, symbol_offset, sizeof(Elf64_Sym))) corrupt_code("a relocation names no symbol");
    section_at[relocation.r_offset] = read_at<Elf64_Sym>(symbols, symbol_offset).st_shndx;
  }
  return LineProgram(sections.content(program), section_at).run();
}

}  // namespace

std::map<std::string, machine::MachineCode> read_machine_code(std::string_view elf) {
  constexpr std::string_view kPrefix = ".text.";
  const Sections sections(elf);
  const uint32_t symbol_section = sections.find(".symtab");
  std::map<std::string, machine::MachineCode> code;
  if (symbol_section == 0) return code;
  const std::span<const std::byte> symbols = sections.content(symbol_section);
  const LineProgram::Lines lines = read_lines(sections, symbols);
  std::map<uint32_t, uint64_t> end_of;  // of the kernel itself, by section
  for (uint64_t at = 0; has_range(symbols, at, sizeof(Elf64_Sym)); at += sizeof(Elf64_Sym)) {
    const auto symbol = read_at<Elf64_Sym>(symbols, at);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0) continue;
    const auto [end, is_new] = end_of.emplace(symbol.st_shndx, symbol.st_value);
    if (!is_new) end->second = std::min(end->second, symbol.st_value);
  }
  for (const auto& [index, line_at] : lines) {
    if (index == 0 || index >= sections.count() || !sections.name_of(index).starts_with(kPrefix)) continue;
    const std::span<const std::byte> text = sections.content(index);
    uint64_t end = text.size();
    if (const auto found = end_of.find(index); found != end_of.end()) end = std::min(end, found->second);
    machine::MachineCode& instructions = code[std::string(sections.name_of(index).substr(kPrefix.size()))];
    auto next = line_at.begin();
    uint32_t line = 0;
    for (uint64_t at = 0; at + machine::kMachineInstructionBytes <= end; at += machine::kMachineInstructionBytes) {
      for (; next != line_at.end() && next->first <= at; ++next) line = next->second;
      instructions.push_back({read_at<uint64_t>(text, at), read_at<uint64_t>(text, at + 8), line});
    }
  }
  return code;
}

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
