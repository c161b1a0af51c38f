// The recursive-descent parser behind `parse`. One class, implemented in one file per part of the language:
//   parser.cpp              the module: header, linkage, order of things
//   parser_variables.cpp    variable and register declarations
//   parser_initializers.cpp initial values of variables
//   parser_functions.cpp    entries, functions, their directives and bodies
//   parser_operands.cpp     instructions and operands
//   parser_constants.cpp    constant expressions
//   parser_lines.cpp        .file, .loc and the debug sections
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/diagnostics.hpp"
#include "emulator/ptx/lexer.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/scopes.hpp"

namespace stagecraft::emulator::ptx {

class Parser {
 public:
  explicit Parser(std::string_view text);
  Module parse();

 private:
  /// The value of a constant expression: integers are two's complement, floats a bit pattern.
  struct Constant {
    TokenKind kind = TokenKind::integer;  ///< integer, float32 or float64
    bool is_unsigned = false;
    uint64_t bits = 0;
    TextPosition position;
  };

  struct Linkage {
    bool is_extern = false, is_visible = false, is_weak = false, is_common = false;
    TextPosition position;
  };

  /// The meaning of a module-scope name.
  struct ModuleSymbol {
    bool is_function = false;
    uint32_t index = 0;
  };

  /// A declaration's part before the name: `.align 8 .v4 .f32`.
  struct Declaration {
    Type type = Type::none;
    uint8_t width = 1;
    uint64_t alignment = 0;  ///< 0 when not given
    bool is_managed = false;
    bool is_opaque = false;  ///< .texref, .samplerref, .surfref
  };

  // Tokens. Token 0 is the next one.
  const Token& peek(size_t ahead = 0);
  Token take();
  bool next_is(char character) { return peek().is(character); }
  bool next_is_directive(std::string_view name) { return peek().kind == TokenKind::dotted && peek().text == name; }
  bool take_if(char character);
  bool take_directive_if(std::string_view name);
  /// @param legal if more than `character` is legal here.
  void expect(char character, std::string_view context, std::string_view legal = {});
  Token expect_identifier(std::string_view what);
  std::string expect_string(std::string_view what);
  uint32_t expect_uint32(std::string_view what);
  uint32_t expect_positive(std::string_view what);
  [[noreturn]] void unexpected(std::string_view context, std::string_view legal);

  // The module.
  void header();
  void module_statement();
  void target();
  Linkage linkage();
  void alias();
  void finish_aliases();

  // Variables.
  Declaration declaration(Space space);
  void attributes(Declaration& declaration);
  void alignment(Declaration& declaration);
  void variables(Space space, const Linkage& linkage);
  void variable(Space space, const Linkage& linkage, const Declaration& declaration);
  void place_variable(Variable variable, std::string_view name);
  std::vector<uint64_t> dimensions(bool may_infer);
  uint64_t size_in_bytes(const Declaration& declaration, const std::vector<uint64_t>& dimensions,
                         TextPosition position);
  void registers();
  Variable parameter(std::vector<Token>& names);
  std::vector<Variable> parameter_list(std::vector<Token>& names);

  // Initial values.
  struct Initializer {
    Variable& variable;
    std::vector<uint64_t> dimensions;  ///< outermost first; [0] is 0 when the values decide; vectors add one
    std::vector<uint64_t> strides;     ///< bytes from one element of a dimension to the next
    uint64_t count = 0;                ///< elements of the outermost dimension that have been met
  };
  void initializer(Variable& variable, const Declaration& declaration, std::vector<uint64_t> dimensions);
  void initial_values(Initializer& initializer, size_t level, uint64_t offset);
  void initial_value(Initializer& initializer, uint64_t offset);
  void initial_string(Initializer& initializer, size_t level, uint64_t offset);
  bool initial_address(Initializer& initializer, uint64_t offset);
  void add_relocation(Variable& variable, Relocation relocation);
  Relocation symbol_address();
  void store(Initializer& initializer, uint64_t offset, const Constant& value);
  void reserve_image(Initializer& initializer, uint64_t end);

  // Functions.
  void function(bool is_entry, const Linkage& linkage);
  bool function_directive(Function& function);
  uint32_t place_function(Function function, const Token& name);
  void body(Function& function, const std::vector<Token>& return_names, const std::vector<Token>& parameter_names);
  void declare_parameters(const std::vector<Variable>& variables, const std::vector<Token>& names, Symbol::Kind kind);
  void statement();
  void scope_directive();
  void label();
  void table(const Token& name);
  void call_prototype(const Token& name);
  Extents extents();

  // Instructions.
  void instruction();
  void guard(Instruction& instruction);
  Operand operand(const Instruction& instruction, size_t depth);
  Operand vector(const Instruction& instruction, size_t depth);
  Operand arguments(const Instruction& instruction, size_t depth);
  Operand address(const Instruction& instruction, size_t depth);
  Operand named(const Instruction& instruction, size_t depth);
  Operand constant_operand();
  std::optional<Operand> register_operand(const Token& name);
  std::optional<Operand> special_register(const Token& name);
  std::optional<Operand> module_symbol(const Token& name);
  Operand reference(const Token& name, OperandKind kind);
  Operand predicate();
  Operand pair(Operand first, const Instruction& instruction, size_t depth);
  int64_t offset();
  [[noreturn]] void unknown_name(const Token& name);

  // Constant expressions.
  Constant constant(size_t depth = 0);
  Constant conditional(size_t depth);
  Constant binary(int lowest_precedence, size_t depth);
  Constant unary(size_t depth);
  Constant primary(size_t depth);
  Constant apply(const Token& operation, const Constant& left, const Constant& right);
  uint64_t expect_size(std::string_view what);
  bool starts_constant();

  // Source lines.
  void file();
  void location();
  void section();
  void debug_strings();
  void finish_locations();

  Lexer lexer_;
  std::array<Token, 2> ahead_;
  size_t ahead_count_ = 0;
  Module module_;
  std::unordered_map<std::string_view, ModuleSymbol> symbols_;
  uint64_t image_bytes_ = 0;  ///< sum over all images

  // The function whose body is being read.
  Function* function_ = nullptr;
  std::optional<Scopes> scopes_;
  SourceId source_ = 0;
  bool source_is_certain_ = true;

  // Source lines.
  struct FunctionName {
    std::string_view label;  ///< in .debug_str; empty for `.debug_str` itself or none
    uint64_t offset = 0;
    bool given = false;
    TextPosition position;
  };
  using LineKey = std::tuple<uint32_t, uint32_t, uint32_t, std::string_view, uint64_t, SourceId>;
  using Place = std::tuple<uint32_t, uint32_t, uint32_t>;
  std::map<LineKey, SourceId> lines_;
  std::map<Place, SourceId> latest_at_place_;  ///< in the function being read
  std::set<Place> ambiguous_places_;           ///< in it: those that several calls were inlined into
  std::vector<std::pair<SourceId, FunctionName>> function_names_;
  std::unordered_map<std::string_view, uint64_t> debug_labels_;
  std::string debug_text_;
  struct Alias {
    uint32_t alias = 0, target = 0;
    TextPosition position;
  };
  std::vector<Alias> aliases_;
};

/// Returns "did you mean `x`?" as the end of a message, or nothing. `prefix` is what the candidates are written with.
std::string suggestion(std::string_view name, const std::vector<std::string_view>& candidates,
                       std::string_view prefix = {});

}  // namespace stagecraft::emulator::ptx
