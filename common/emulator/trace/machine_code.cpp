// How instructions are encoded is not documented by NVIDIA. What is read here was compared with what nvdisasm 13.5
// prints of the programs of this repository for sm_90a and sm_100a: names of opcodes, the targets of 20,353 branches,
// registers. Where the fields that control the issue are is published for Volta (Jia et al., arXiv 1804.06826,
// section 2.1).
#include "emulator/trace/machine_code.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace stagecraft::emulator::trace {
namespace {

using timing::InstructionClass;

// The lower nine bits of an instruction are its opcode, the next three say where its operands are.
constexpr uint32_t kOpcodeBits = 9;
constexpr uint32_t kBranch = 0x147, kBranchTable = 0x149, kCall = 0x144, kExit = 0x14d, kReturn = 0x150;
constexpr uint32_t kLoadConstant = 0x182;
constexpr uint32_t kFloatProductSum = 0x23;                                 // FFMA
constexpr uint32_t kImma = 0x37, kHmma = 0x3c, kQmma = 0x7a, kOmma = 0x7f;  // the last two for sm_120a
constexpr uint32_t kZeroRegister = 255;

uint32_t field(uint64_t bits, uint32_t first, uint32_t count) {
  return static_cast<uint32_t>(bits >> first & ((uint64_t{1} << count) - 1));
}

bool is_access(uint32_t opcode) {
  switch (opcode) {
    case 0x3b:  // LDSM
    case 0x44:  // STSM
    case 0x180:
    case 0x181:
    case 0x183:
    case 0x184:
    case 0x185:  // LD, LDG, LDL, LDS, ST
    case 0x186:
    case 0x187:
    case 0x188:  // STG, STL, STS
    case 0x18a:
    case 0x18b:
    case 0x18c:
    case 0x18d:
    case 0x18e:               // ATOM, ATOMS, REDG
    case 0x1a8: return true;  // ATOMG
    default: return false;
  }
}

/// Which product of a warp: the bits were read off what ptxas 13.0 makes of mma.sync for sm_90a and sm_120a.
InstructionClass class_of_product(const machine::MachineInstruction& word, uint32_t opcode) {
  constexpr uint32_t kDeep = 11, kSumsOfHmma = 12, kSumsOfQmma = 13, kShortTf32 = 14, kNarrowTypes = 18, kTf32 = 19;
  constexpr uint32_t kScaledForm = 2;
  const auto bit = [&](uint32_t number) { return field(word.high, number, 1) != 0; };
  bool deep = bit(kDeep), quick = true;
  if (opcode == kHmma) {
    quick = !bit(kSumsOfHmma);
    if (bit(kTf32)) deep = !bit(kShortTf32);
  } else if (opcode == kQmma) {
    const bool narrow = field(word.high, kNarrowTypes, 4) != 0;  // 6 or 4 bits, published as slow with any sums
    const bool scaled = field(word.low, kOpcodeBits, 3) == kScaledForm;
    quick = !narrow && (scaled || !bit(kSumsOfQmma));
  } else if (opcode == kOmma) {
    deep = true;
  }
  if (quick) return deep ? InstructionClass::warp_matrix_quick : InstructionClass::warp_matrix_quick_short;
  return deep ? InstructionClass::warp_matrix : InstructionClass::warp_matrix_short;
}

InstructionClass class_of(const machine::MachineInstruction& word, uint32_t opcode) {
  if (is_access(opcode)) return InstructionClass::memory;
  switch (opcode) {
    case 0x02:  // MOV
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0b:
    case 0x0c:  // SEL, FSEL, FMNMX, FSETP, ISETP
    case 0x10:
    case 0x11:
    case 0x12:
    case 0x13:
    case 0x16:
    case 0x19:  // IADD3, LEA, LOP3, IABS, PRMT, SHF
    case 0x1c:
    case 0x36:
    case 0x46:
    case 0x48:                                             // PLOP3, VIADD, VIADDMNMX, VIMNMX
    case 0x03: return InstructionClass::logic;             // P2R
    case 0x3e: return InstructionClass::convert_half;      // F2FP
    case 0x45: return InstructionClass::convert_to_float;  // I2FP
    case 0x20:
    case 0x21:
    case 0x23: return InstructionClass::float32;  // FMUL, FADD, FFMA
    case 0x24:
    case 0x26: return InstructionClass::multiply;  // IMAD, IDP
    case 0x25:
    case 0x27: return InstructionClass::multiply_wide;  // IMAD.WIDE, IMAD.HI
    case 0x28:
    case 0x29:
    case 0x2a:
    case 0x2b: return InstructionClass::float64;  // DMUL, DADD, DSETP, DFMA
    case 0x30:
    case 0x31:
    case 0x32:
    case 0x35: return InstructionClass::half;  // HADD2, HFMA2, HMUL2
    case kImma:
    case kHmma:
    case kQmma:
    case kOmma: return class_of_product(word, opcode);
    case 0x06:
    case 0x2f:
    case 0x86: return InstructionClass::vote;  // VOTE, ELECT, VOTEU
    case 0x100:
    case 0x101:
    case 0x108:
    case 0x109: return InstructionClass::special;  // FLO, BREV, MUFU, POPC
    case 0x105:
    case 0x106:
    case 0x110:
    case 0x111:
    case 0x112: return InstructionClass::convert;  // F2I, I2F, F2F
    case 0x189: return InstructionClass::shuffle;  // SHFL
    case 0x1a1: return InstructionClass::match;    // MATCH
    case 0xcc:
    case 0x1c4: return InstructionClass::reduce;  // CREDUX, REDUX
    case 0x141:
    case 0x144:
    case 0x145:
    case 0x147:
    case 0x149:
    case 0x14d:
    case 0x150:  // BSYNC, CALL, BSSY, BRA, ...
      return InstructionClass::control;
    case 0x1ae:
    case 0x11d:
    case 0x1a7:
    case 0x1b2:
    case 0x1b4:
    case 0x1b5:
    case 0x1f0:
    case 0x1f3: return InstructionClass::barrier;  // LDGSTS, BAR, SYNCS, UTMALDG, UTMASTG, HGMMA, QGMMA
    case 0x1e7:
    case 0x1e9:
    case 0x1ea:
    case 0x1ed:
    case 0x1ee:  // UTCCP, UTCBAR, UTCHMMA, STTM, LDTM
      return InstructionClass::barrier;
    case 0x192:
    case 0x1c6: return InstructionClass::fence;  // MEMBAR, FENCE
    default: return InstructionClass::other;
  }
}

/// Which of its three operands an instruction has in registers: a bit for each, in the order of its reuse flags.
uint32_t operands_in_registers(uint32_t opcode, uint32_t form) {
  constexpr uint32_t kA = 1, kB = 2, kC = 4;
  constexpr uint32_t kAllInRegisters = 1;  // otherwise the second is a constant or an immediate
  const uint32_t second = form == kAllInRegisters ? kB : 0;
  switch (opcode) {
    case kFloatProductSum:
    case 0x10:
    case 0x12:
    case 0x24: return kA | second | kC;  // IADD3, LOP3, IMAD
    case 0x20:
    case 0x21: return kA | second;  // FMUL, FADD
    default: return 0;              // not looked at
  }
}

/// Finds which registers instructions read from each bank. A register is in the bank of its last bit (Jia et al.,
/// section 3.1). What the instruction before has kept of the same operand is not read again.
class RegisterReads {
 public:
  std::array<uint8_t, 2> next(const machine::MachineInstruction& word, uint32_t opcode) {
    const std::array<uint32_t, 3> registers = {field(word.low, 24, 8), field(word.low, 32, 8), field(word.high, 0, 8)};
    const uint32_t present = operands_in_registers(opcode, field(word.low, kOpcodeBits, 3));
    std::array<uint8_t, 2> reads{};
    std::array<uint32_t, 3> read{};
    size_t count = 0;
    for (size_t i = 0; i < registers.size(); ++i) {
      const bool is_kept = (kept_ >> i & 1) != 0 && registers_[i] == registers[i];
      if ((present >> i & 1) == 0 || registers[i] == kZeroRegister || is_kept) continue;
      if (std::find(read.begin(), read.begin() + count, registers[i]) != read.begin() + count) continue;
      read[count++] = registers[i];
      ++reads[registers[i] % 2];
    }
    registers_ = registers;
    kept_ = field(word.high, 58, 3) & present;
    return reads;
  }

 private:
  std::array<uint32_t, 3> registers_{};
  uint32_t kept_ = 0;  // a bit for each operand
};

}  // namespace

timing::MachineCode describe_machine_code(const machine::Kernel& kernel) {
  std::unordered_map<uint32_t, uint32_t> pc_of;  // by line of PTX
  for (uint32_t pc = 0; pc < kernel.places.size(); ++pc) {
    const machine::OpPlace& place = kernel.places[pc];
    if (place.function == nullptr || place.instruction >= place.function->body.size()) continue;
    pc_of.emplace(place.function->body[place.instruction].position.line, pc);
  }
  timing::MachineCode described(kernel.machine_code.size());
  RegisterReads reads;
  for (uint32_t i = 0; i < described.size(); ++i) {
    const machine::MachineInstruction& word = kernel.machine_code[i];
    timing::MachineInstruction& instruction = described[i];
    const uint32_t opcode = field(word.low, 0, kOpcodeBits);
    if (const auto found = pc_of.find(word.line); found != pc_of.end()) instruction.pc = found->second;
    instruction.kind = class_of(word, opcode);
    instruction.accesses = is_access(opcode);
    instruction.stall = static_cast<uint8_t>(field(word.high, 41, 4));
    instruction.result = static_cast<uint8_t>(field(word.high, 46, 3));
    instruction.operands = static_cast<uint8_t>(field(word.high, 49, 3));
    instruction.waits = static_cast<uint8_t>(field(word.high, 52, 6));
    instruction.reads = reads.next(word, opcode);
    constexpr uint32_t kAlways = 7;
    const bool guarded = field(word.low, 12, 3) != kAlways;
    instruction.branches = opcode == kBranch || opcode == kBranchTable;
    instruction.calls = opcode == kCall;
    instruction.constant = opcode == kLoadConstant;
    instruction.ends = !guarded && (instruction.branches || opcode == kExit || opcode == kReturn);
    if (opcode != kBranch) continue;
    // In words from the next instruction: 48 bits, and eight lower ones elsewhere.
    const int64_t high_part = static_cast<int64_t>((word.low >> 34 | word.high << 30) << 16) >> 16;
    const int64_t words = high_part * 256 + field(word.low, 16, 8);
    const int64_t target = i + 1 + words * 4 / machine::kMachineInstructionBytes;
    if (target == i) {  // after the end is a branch to itself, and what fills up the last line
      described.resize(i);
      break;
    }
    if (target >= 0 && target < static_cast<int64_t>(described.size())) {
      instruction.target = static_cast<uint32_t>(target);
    }
  }
  for (timing::MachineInstruction& each : described) {
    if (each.target != timing::MachineInstruction::kNone && each.target >= described.size()) {
      each.target = timing::MachineInstruction::kNone;
    }
  }
  return described;
}

}  // namespace stagecraft::emulator::trace
