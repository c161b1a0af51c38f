// The typed program that the parser makes from PTX text: its variables, functions and instructions, by name and by
// number, before the machine decides how to execute them. Text positions and CUDA source lines are kept for reports.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stagecraft::emulator::ptx {

/// A place in the PTX text; lines and columns count from 1, and 0 means "none".
struct TextPosition {
  uint32_t line = 0;
  uint32_t column = 0;
};

/// Number of a `SourceLine` in `Module::source_lines`; 0 means that no `.loc` applies.
using SourceId = uint32_t;

/// A place in the CUDA source, from a `.loc`.
struct SourceLine {
  uint32_t file = 0;  ///< key of `Module::files`
  uint32_t line = 0;
  uint32_t column = 0;
  std::string function;     ///< the inlined function this line belongs to, mangled; empty when not inlined
  SourceId inlined_at = 0;  ///< the call this line was inlined into; 0 when not inlined
};

/// The fundamental types of PTX (PTX ISA, "Fundamental Types") that registers, variables and parameters can have.
enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f32x2,
  f64,
};

/// Returns the storage of one value in bytes; 0 for a predicate, which is one bit of a mask and never in memory.
uint32_t size_of(Type type);
/// Returns `Type::u32` for `"u32"`, and so on; `Type::none` for a name that is not a fundamental type.
Type type_from_name(std::string_view name);
std::string_view name_of(Type type);

enum class Space : uint8_t { none, reg, sreg, constant, global, local, param, shared };
std::string_view name_of(Space space);

/// A register of a function. Vector registers (`.reg .v4 .b32`) are expanded: `%v.x` is a register of its own.
struct Register {
  std::string name;
  Type type = Type::none;
};
using RegisterId = uint32_t;

/// A value inside an initialiser that is the address of a symbol, to be filled in when the module is placed in memory.
struct Relocation {
  uint64_t offset = 0;  ///< byte offset in the variable's image where the address goes
  uint32_t size = 8;    ///< bytes of the address stored there
  std::string symbol;
  int64_t addend = 0;
  bool generic = false;  ///< the initialiser said `generic(symbol)`
  uint32_t shift = 0;    ///< bits to shift the address right before storing: `0xFF00(symbol)` stores its second byte
};

/// A variable of any space: module-scope `.global`, `.const`, `.shared`; function-scope `.shared`, `.local`, `.param`.
struct Variable {
  std::string name;  ///< as written; variables of nested scopes may have the same name, but differ by their index
  Space space = Space::none;
  Type type = Type::none;  ///< element type
  uint64_t size = 0;       ///< bytes; 0 for an extern array of unknown size (dynamic shared memory)
  uint64_t alignment = 1;  ///< bytes
  bool is_extern = false;
  bool is_weak_or_common = false;
  bool is_visible = false;
  bool is_managed = false;     ///< `.attribute(.managed)`: the host reads and writes it too
  std::vector<uint8_t> image;  ///< initial bytes; empty when not initialised (zeros), otherwise `size` bytes
  std::vector<Relocation> relocations;
  TextPosition position;
};

struct Operand;

/// The kinds of operand an instruction can have.
enum class OperandKind : uint8_t {
  reg,        ///< `reg`, negated if `negated` (predicates: `!%p1`; arithmetic never)
  integer,    ///< `bits` is the value as 64-bit two's complement
  f32,        ///< `bits` is the 32-bit pattern (0f....)
  f64,        ///< `bits` is the 64-bit pattern (0d...., or a decimal floating literal)
  special,    ///< special register, `name` without the percent sign: "tid.x", "laneid", "clock64"
  symbol,     ///< address of a variable or function: `symbol`, plus `offset`
  label,      ///< branch target: `label`
  address,    ///< `[base + offset]`: `list[0]` is the base (reg, symbol or integer); `list[1]`, if any, is the
              ///< coordinate vector of a tensor access `[map, {c0, c1}]`
  vector,     ///< `{a, b, c, d}`: `list`
  pair,       ///< `d|p` (setp, shfl, elect): `list[0]`, `list[1]`
  arguments,  ///< `( a, b )` of a call: `list`
  sink,       ///< `_`
};

/// What a symbol operand names.
enum class SymbolKind : uint8_t {
  none,
  module_variable,
  local_variable,
  function,
  prototype,
  table,
  parameter,     ///< of the function or entry itself: Function::parameters
  return_value,  ///< of the function itself: Function::returns
  call_table,    ///< a `.calltargets` list: Function::call_tables
};

struct Operand {
  OperandKind kind = OperandKind::sink;
  bool negated = false;
  RegisterId reg = 0;
  uint64_t bits = 0;
  int64_t offset = 0;                         ///< of symbol and address
  SymbolKind symbol_kind = SymbolKind::none;  ///< which table `symbol` is an index in
  uint32_t symbol = 0;                        ///< index in Module::variables, Function::variables, Module::functions,
                                              ///< Function::prototypes, Function::branch_tables and so on
  uint32_t label = 0;                         ///< index of the target in Function::body (may equal body.size())
  std::string name;                           ///< the text of a register, symbol, label or special register
  std::vector<Operand> list;
  TextPosition position;
};

/// Calls `visit(RegisterId)` for each register that the operand names, also within braces and brackets.
template <typename Visit>
void visit_registers(const Operand& operand, const Visit& visit) {
  if (operand.kind == OperandKind::reg) visit(operand.reg);
  for (const Operand& inner : operand.list) visit_registers(inner, visit);
}

/// One instruction. `setp.lt.s32 %p1, %r1, 7` has opcode "setp" and modifiers {"lt", "s32"}. A modifier keeps its
/// double colons: {"mbarrier::complete_tx::bytes"}.
struct Instruction {
  std::string opcode;
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;
  bool guarded = false;  ///< has `@p` or `@!p`
  bool guard_negated = false;
  bool source_is_certain = true;  ///< false where the PTX leaves open which of several calls it was inlined into
  RegisterId guard = 0;
  SourceId source = 0;
  TextPosition position;
};

/// A `.callprototype`, for indirect calls; parameters as in Function.
struct Prototype {
  std::string name;
  std::vector<Variable> returns;
  std::vector<Variable> parameters;
};

/// A `.branchtargets` list, for `brx.idx`: indices in Function::body.
struct BranchTable {
  std::string name;
  std::vector<uint32_t> targets;
};

/// A `.calltargets` list, the functions an indirect call may reach: indices in Module::functions.
struct CallTable {
  std::string name;
  std::vector<uint32_t> functions;
};

/// The three extents of `.maxntid`, `.reqntid` or `.reqnctapercluster`: missing ones are 1; all are 0 without the
/// directive.
struct Extents {
  uint32_t x = 0, y = 0, z = 0;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_declaration = false;  ///< `.extern .func` or a forward declaration that no definition followed
  bool is_noreturn = false;
  bool is_visible = false;           ///< other modules may call it: `.visible`, `.weak`, `.extern`
  bool is_weak = false;              ///< another definition replaces it
  std::vector<Variable> returns;     ///< `.param` (or `.reg`) return values of a `.func`
  std::vector<Variable> parameters;  ///< for entries and functions, in order
  std::vector<Register> registers;   ///< first the `.reg` returns and parameters; from `%r<15>`, only those in use
  std::vector<Variable> variables;   ///< everything declared inside the body: .shared, .local, .param
  std::vector<Prototype> prototypes;
  std::vector<BranchTable> branch_tables;
  std::vector<CallTable> call_tables;
  std::vector<Instruction> body;
  std::unordered_map<std::string, uint32_t> labels;  ///< outermost-scope labels, for tests and listings
  Extents max_threads;                               ///< .maxntid
  Extents required_threads;                          ///< .reqntid
  Extents cluster;                                   ///< .reqnctapercluster
  uint32_t max_cluster_rank = 0;
  uint32_t min_blocks_per_sm = 0;
  uint32_t max_registers = 0;
  bool explicit_cluster = false;
  bool blocks_are_clusters = false;  ///< .blocksareclusters: the grid is given in clusters
  TextPosition position;
};

struct Module {
  uint32_t version_major = 0, version_minor = 0;
  std::string target;  ///< "sm_100a"
  uint32_t address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::unordered_map<uint32_t, std::string> files;                                   ///< `.file` number to path
  std::vector<SourceLine> source_lines{1};                                           ///< [0] is the unknown line
  std::filesystem::file_time_type written = std::filesystem::file_time_type::min();  ///< its file; then: unknown
  std::string left_out;  ///< inputs that were not linked, and why; for messages about undefined symbols

  const Function* find_function(std::string_view name) const;
  /// Returns `"gemm.cu:88"`, or an empty string when the line is unknown.
  std::string describe(SourceId source) const;
};

}  // namespace stagecraft::emulator::ptx
