#include "emulator/engines/tensor_core/matrix_descriptors.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <tuple>

#include "emulator/state/fault.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint64_t field(uint64_t bits, uint32_t high, uint32_t low) {
  return bits >> low & ((uint64_t{1} << (high - low + 1)) - 1);
}

std::string spell_bits(uint32_t high, uint32_t low) {
  return high == low ? fmt::format("bit {}", high) : fmt::format("bits {}:{}", high, low);
}

// A descriptor that is being checked. Each message begins with what it is and its value.
class Word {
 public:
  Word(uint64_t bits, std::string_view what, uint32_t digits) : bits_(bits), what_(what), digits_(digits) {}

  uint64_t get(uint32_t high, uint32_t low) const { return field(bits_, high, low); }
  bool bit(uint32_t index) const { return get(index, index) != 0; }

  [[noreturn]] void refuse(std::string_view problem, std::string legal) const {
    throw Fault(FaultKind::illegal_instruction, fmt::format("{} 0x{:0{}x}: {}", what_, bits_, digits_, problem),
                {"legal: " + std::move(legal)});
  }
  /// Checks a field that has only one legal value.
  void require(uint32_t high, uint32_t low, uint64_t value, std::string_view meaning) const {
    const uint64_t found = get(high, low);
    if (found == value) return;
    refuse(fmt::format("{} ({}) is {}", spell_bits(high, low), meaning, found), fmt::format("{}", value));
  }

 private:
  uint64_t bits_;
  std::string_view what_;
  uint32_t digits_;
};

ElementFormat narrow_format(const Word& word, uint32_t high, uint32_t low, char operand) {
  const uint64_t code = word.get(high, low);
  switch (code) {
    case 0: return ElementFormat::e4m3;
    case 1: return ElementFormat::e5m2;
    case 3: return ElementFormat::e2m3;
    case 4: return ElementFormat::e3m2;
    case 5: return ElementFormat::e2m1;
    default:
      word.refuse(fmt::format("format of {} ({}) is {}", operand, spell_bits(high, low), code),
                  "0 e4m3, 1 e5m2, 3 e2m3, 4 e3m2, 5 e2m1");
  }
}

ElementFormat operand_format(const Word& word, MmaKind kind, uint32_t high, uint32_t low, char operand) {
  const uint64_t code = word.get(high, low);
  const std::string problem =
      fmt::format("format of {} ({}) is {} for {}", operand, spell_bits(high, low), code, name_of(kind));
  switch (kind) {
    case MmaKind::f16:
      if (code > 1) word.refuse(problem, "0 f16, 1 bf16");
      return code == 0 ? ElementFormat::f16 : ElementFormat::bf16;
    case MmaKind::tf32:
      if (code != 2) word.refuse(problem, "2 tf32");
      return ElementFormat::tf32;
    case MmaKind::i8:
      if (code > 1) word.refuse(problem, "0 u8, 1 s8");
      return code == 0 ? ElementFormat::u8 : ElementFormat::s8;
    default: return narrow_format(word, high, low, operand);
  }
}

void check_accumulator(const Word& word, InstructionDescriptor& descriptor) {
  const uint64_t code = word.get(5, 4);
  const MmaKind kind = descriptor.kind;
  const bool may_be_f16 = kind == MmaKind::f8f6f4 || (kind == MmaKind::f16 && descriptor.a == ElementFormat::f16 &&
                                                      descriptor.b == ElementFormat::f16);
  const bool legal = kind == MmaKind::i8 ? code == 2 : code == 1 || (code == 0 && may_be_f16);
  if (!legal) {
    word.refuse(fmt::format("format of D (bits 5:4) is {} for {}", code, name_of(kind)), kind == MmaKind::i8 ? "2 s32"
                                                                                         : may_be_f16 ? "0 f16, 1 f32"
                                                                                                      : "1 f32");
  }
  descriptor.d = code == 0 ? AccumulatorFormat::f16 : code == 1 ? AccumulatorFormat::f32 : AccumulatorFormat::s32;
}

// The legal numbers of columns of a form: whether N is one of them, and how a message lists them.
struct LegalN {
  bool found;
  const char* words;
};
LegalN legal_n(MmaKind kind, uint32_t n, bool ws, bool pair, bool sparse) {
  if (ws && sparse) return {n == 64 || n == 128, "N 64 or 128"};
  if (ws) return {n == 64 || n == 128 || n == 256, "N 64, 128 or 256"};
  const auto steps_of = [n](uint32_t step) { return n >= step && n <= 256 && n % step == 0; };
  if (kind == MmaKind::i8) {
    if (pair) return {steps_of(32), "N from 32 to 256 in steps of 32"};
    return {n <= 24 ? steps_of(8) : steps_of(16), "N 8, 16, 24, 32, and from 48 to 256 in steps of 16"};
  }
  if (pair) return {steps_of(16), "N from 16 to 256 in steps of 16"};
  return {steps_of(8), "N from 8 to 256 in steps of 8"};
}

void check_shape(const Word& word, const InstructionDescriptor& descriptor, bool ws) {
  const auto [m, n, kind] = std::tuple{descriptor.m, descriptor.n, descriptor.kind};
  const bool scaled = is_block_scaled(kind), pair = descriptor.blocks == 2, sparse = descriptor.sparse;
  const bool whole_pair = pair && scaled && sparse;
  const bool legal_m = pair ? (m == 128 && !whole_pair) || m == 256
                       : ws ? m == 32 || m == 64 || m == 128
                            : m == 128 || (m == 64 && !scaled);
  const std::string form = fmt::format("{}{}{} with cta_group::{}", name_of(kind), ws ? " .ws" : "",
                                       sparse ? " .sp" : "", descriptor.blocks);
  if (!legal_m) {
    word.refuse(fmt::format("M ({}) is {} for {}",
                            scaled ? "bits 28:27, in units of 128" : "bits 28:24, in units of 16", m, form),
                whole_pair ? "M 256"
                : pair     ? "M 128 or 256"
                : ws       ? "M 32, 64 or 128"
                : scaled   ? "M 128"
                           : "M 64 or 128");
  }
  const LegalN legal = legal_n(kind, n, ws, pair, sparse);
  if (!legal.found) word.refuse(fmt::format("N (bits 22:17, in units of 8) is {} for {}", n, form), legal.words);
}

void check_major(const Word& word, InstructionDescriptor& descriptor) {
  descriptor.a_mn_major = word.bit(15);
  descriptor.b_mn_major = word.bit(16);
  const auto check = [&](bool mn_major, ElementFormat format, char operand, uint32_t index) {
    const bool sub_byte =
        format == ElementFormat::e2m3 || format == ElementFormat::e3m2 || format == ElementFormat::e2m1;
    if (mn_major && sub_byte) {
      word.refuse(fmt::format("bit {} makes {} MN-major, with elements of less than 8 bits", index, operand),
                  "K-major (0) for 4- and 6-bit elements");
    }
  };
  check(descriptor.a_mn_major, descriptor.a, 'A', 15);
  check(descriptor.b_mn_major, descriptor.b, 'B', 16);
  const uint32_t step = 16 * descriptor.blocks;
  if (descriptor.b_mn_major && bits_of(descriptor.b) == 8 && descriptor.n % step != 0) {
    word.refuse(
        fmt::format("N (bits 22:17, in units of 8) is {} with an MN-major B (bit 16) of 8-bit elements", descriptor.n),
        fmt::format("N from {0} to 256 in steps of {0}", step));
  }
}

void decode_sparsity(const Word& word, InstructionDescriptor& descriptor) {
  if (descriptor.sparse) {
    word.require(2, 2, 1, "sparse A; the instruction is tcgen05.mma.sp");
  } else {
    word.require(2, 2, 0, "sparse A; the instruction is not tcgen05.mma.sp");
  }
  if (descriptor.sparse && has_paired_metadata(descriptor.kind)) {
    descriptor.selector = static_cast<uint32_t>(word.get(1, 0));
  } else {
    word.require(1, 0, 0, "sparsity selector, of kind::f16 and kind::tf32 with sparse A only");
  }
}

void decode_dense(const Word& word, InstructionDescriptor& descriptor) {
  const MmaKind kind = descriptor.kind;
  const bool integer = kind == MmaKind::i8;
  if (!integer) word.require(3, 3, 0, "saturation, of kind::i8 only");
  descriptor.saturate = word.bit(3);
  word.require(6, 6, 0, "reserved");
  descriptor.a = operand_format(word, kind, 9, 7, 'A');
  descriptor.b = operand_format(word, kind, 12, 10, 'B');
  check_accumulator(word, descriptor);
  if (integer) word.require(14, 13, 0, "negation of A and B, which kind::i8 does not have");
  word.require(23, 23, 0, "reserved");
  descriptor.m = static_cast<uint32_t>(word.get(28, 24)) * 16;
  word.require(29, 29, 0, "reserved");
  descriptor.k = kind == MmaKind::f16 ? 16 : kind == MmaKind::tf32 ? 8 : 32;
}

void decode_scaled(const Word& word, InstructionDescriptor& descriptor) {
  const MmaKind kind = descriptor.kind;
  word.require(3, 3, 0, "reserved");
  word.require(6, 6, 0, "reserved");
  descriptor.d = AccumulatorFormat::f32;
  descriptor.scale_id_a = static_cast<uint32_t>(word.get(30, 29));
  descriptor.scale_id_b = static_cast<uint32_t>(word.get(5, 4));
  descriptor.scale_ue4m3 = !word.bit(23);
  descriptor.m = static_cast<uint32_t>(word.get(28, 27)) * 128;
  word.require(26, 24, 0, "reserved");
  if (kind == MmaKind::mxf8f6f4) {
    descriptor.a = narrow_format(word, 9, 7, 'A');
    descriptor.b = narrow_format(word, 12, 10, 'B');
    descriptor.k = 32;
    word.require(31, 31, 0, "reserved");
  } else {
    word.require(9, 7, 1, "format of A: e2m1");
    word.require(11, 10, 1, "format of B: e2m1");
    word.require(12, 12, 0, "reserved");
    word.require(16, 15, 0, "MN-major operands, which kinds of 4-bit elements do not have");
    word.require(31, 31, 0, "K of 96, which sm_103a has; here K is 64");
    descriptor.a = descriptor.b = ElementFormat::e2m1_packed;
    descriptor.k = 64;
  }
  if (kind != MmaKind::mxf4nvf4 && descriptor.scale_ue4m3) {
    word.refuse(fmt::format("bit 23 (type of the scale factors) is 0, ue4m3, for {}", name_of(kind)), "1, ue8m0");
  }
}

}  // namespace

std::string_view name_of(MmaKind kind) {
  switch (kind) {
    case MmaKind::f16: return "kind::f16";
    case MmaKind::tf32: return "kind::tf32";
    case MmaKind::f8f6f4: return "kind::f8f6f4";
    case MmaKind::i8: return "kind::i8";
    case MmaKind::mxf8f6f4: return "kind::mxf8f6f4";
    case MmaKind::mxf4: return "kind::mxf4";
    case MmaKind::mxf4nvf4: return "kind::mxf4nvf4";
  }
  return "";
}

SharedDescriptor decode_shared_descriptor(uint64_t bits, std::string_view what) {
  const Word word(bits, what, 16);
  SharedDescriptor descriptor;
  descriptor.start = static_cast<uint32_t>(word.get(13, 0)) << 4;
  descriptor.leading = static_cast<uint32_t>(word.get(29, 16)) << 4;
  descriptor.stride = static_cast<uint32_t>(word.get(45, 32)) << 4;
  descriptor.base_offset = static_cast<uint32_t>(word.get(51, 49));
  word.require(15, 14, 0, "reserved; an addition to the start address may have carried into them");
  word.require(31, 30, 0, "reserved");
  word.require(48, 46, 1, "constant: the descriptor's version for sm_100");
  word.require(52, 52, 0, "leading dimension as an absolute address, of sm_103a only");
  word.require(60, 53, 0, "reserved");
  const uint64_t code = word.get(63, 61);
  switch (code) {
    case 0: descriptor.swizzle = Swizzle::none; break;
    case 1: descriptor.swizzle = Swizzle::bytes128_atom32; break;
    case 2: descriptor.swizzle = Swizzle::bytes128; break;
    case 4: descriptor.swizzle = Swizzle::bytes64; break;
    case 6: descriptor.swizzle = Swizzle::bytes32; break;
    default:
      word.refuse(fmt::format("swizzle (bits 63:61) is {}", code),
                  "0 none, 1 128 bytes in atoms of 32, 2 128 bytes, 4 64 bytes, 6 32 bytes");
  }
  if (descriptor.swizzle == Swizzle::bytes128_atom32 && descriptor.start % 32 != 0) {
    word.refuse(
        fmt::format("start address 0x{:x} (bits 13:0, in units of 16) with atoms of 32 bytes", descriptor.start),
        "a start address that is a multiple of 32");
  }
  // "This is valid for all swizzling modes except the no-swizzle mode" (PTX ISA, "Shared memory descriptor"): there the
  // field has no meaning. Triton leaves 4 in it for every tcgen05.cp of scale factors, tested on B200s.
  if (descriptor.swizzle == Swizzle::none) descriptor.base_offset = 0;
  return descriptor;
}

SharedDescriptor decode_warpgroup_descriptor(uint64_t bits, std::string_view what) {
  constexpr std::array<Swizzle, 4> kSwizzles{Swizzle::none, Swizzle::bytes128, Swizzle::bytes64, Swizzle::bytes32};
  const Word word(bits, what, 16);
  SharedDescriptor descriptor;
  descriptor.start = static_cast<uint32_t>(word.get(13, 0)) << 4;
  descriptor.leading = static_cast<uint32_t>(word.get(29, 16)) << 4;
  descriptor.stride = static_cast<uint32_t>(word.get(45, 32)) << 4;
  descriptor.base_offset = static_cast<uint32_t>(word.get(51, 49));
  descriptor.swizzle = kSwizzles[word.get(63, 62)];
  word.require(15, 14, 0, "unused; an addition to the start address may have carried into them");
  word.require(31, 30, 0, "unused; an addition may have carried into them");
  if (descriptor.swizzle == Swizzle::none && descriptor.base_offset != 0) {
    word.refuse(fmt::format("base offset (bits 51:49) is {} without a swizzle", descriptor.base_offset), "0");
  }
  return descriptor;
}

InstructionDescriptor decode_instruction_descriptor(uint32_t bits, MmaKind kind, bool ws, bool pair, bool sparse) {
  const Word word(bits, "tcgen05.mma, instruction descriptor", 8);
  InstructionDescriptor descriptor;
  descriptor.kind = kind;
  descriptor.blocks = pair ? 2 : 1;
  descriptor.sparse = sparse;
  decode_sparsity(word, descriptor);
  if (is_block_scaled(kind)) {
    decode_scaled(word, descriptor);
  } else {
    decode_dense(word, descriptor);
    if (!ws) word.require(31, 30, 0, "largest shift of B, of .ws only");
  }
  if (sparse) descriptor.k *= 2;
  descriptor.n = static_cast<uint32_t>(word.get(22, 17)) * 8;
  descriptor.negate_a = word.bit(13);
  descriptor.negate_b = word.bit(14);
  check_shape(word, descriptor, ws);
  check_major(word, descriptor);
  return descriptor;
}

}  // namespace stagecraft::emulator::machine
