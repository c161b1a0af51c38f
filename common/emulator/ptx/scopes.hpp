// The meaning of names inside a function: nested scopes, and references to labels that are defined later.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// The meaning of a name inside a function.
struct Symbol {
  enum class Kind : uint8_t {
    scalar_register,  ///< `index` in Function::registers
    vector_register,  ///< `width` registers from `index` on
    local_variable,   ///< `index` in Function::variables
    module_variable,  ///< a `.global` or `.const` declared inside a function: `index` in Module::variables
    parameter,        ///< `index` in Function::parameters
    return_value,     ///< `index` in Function::returns
    label,            ///< `index` in Function::body
    prototype,        ///< `index` in Function::prototypes
    branch_table,     ///< `index` in Function::branch_tables
    call_table,       ///< `index` in Function::call_tables
  };
  Kind kind = Kind::scalar_register;
  uint8_t width = 1;
  uint32_t index = 0;
  TextPosition position;
};

/// `.reg .b32 %r<15>`: %r0 to %r14. A register is made when it is first used, so that neither the text
/// `%r<4000000000>` nor the thousands of registers that nvcc declares and then does not use cost anything.
struct RegisterRange {
  Type type = Type::none;
  uint8_t width = 1;  ///< of `.v2` and `.v4` registers
  uint32_t count = 0;
  TextPosition position;
};

/// A name that was used before it was defined: a label, or a table of labels.
struct Reference {
  std::string_view name;
  TextPosition position;
  bool in_table = false;  ///< an entry of a branch table, not an operand
  uint32_t owner = 0;     ///< index in Function::body, or in Function::branch_tables
  uint32_t item = 0;      ///< index in `operands` or in `targets`
};

/// The scopes of one function, from its parameters inwards.
class Scopes {
 public:
  /// Deeper nesting than this is refused: programs do not have it, and it must not exhaust the stack of a later stage.
  static constexpr size_t kDeepest = 256;

  explicit Scopes(Function& function) : function_(function), scopes_(1) {}

  void open(TextPosition position);
  /// Resolves the references to names of the innermost scope, and passes the others to the scope around it.
  void close();
  /// Throws SyntaxError for a reference that no scope resolved. Must be called when all scopes except the first are
  /// closed.
  void finish();
  size_t depth() const { return scopes_.size(); }

  /// Declares a name in the innermost scope. Throws SyntaxError if it is declared there already.
  void declare(std::string_view name, Symbol symbol);
  /// Declares `prefix<count>` in the innermost scope.
  void declare_range(std::string_view prefix, RegisterRange range);
  /// Adds `width` registers (their names get `.x`, `.y` ... when there are several) and returns the first one's number.
  RegisterId add_registers(std::string_view name, Type type, uint8_t width);

  /// Returns the innermost symbol of this name; null when there is none. It is valid until the next declaration.
  const Symbol* find(std::string_view name);
  void add_reference(const Reference& reference) { scopes_.back().references.push_back(reference); }

  /// Returns the names in all scopes, for suggestions.
  std::vector<std::string_view> names() const;
  /// Returns "`%r0` to `%r14`" when `name` is `%r20` and `%r<15>` is declared; otherwise empty.
  std::string range_hint(std::string_view name) const;

 private:
  struct Scope {
    std::unordered_map<std::string_view, Symbol> symbols;
    std::unordered_map<std::string_view, RegisterRange> ranges;
    std::unordered_map<std::string_view, uint32_t> lowest_numbered;  ///< of declared `%r3`, `%r7`: {"%r", 3}
    std::vector<Reference> references;
  };

  bool answer(const Reference& reference, const Symbol& symbol);

  Function& function_;
  std::vector<Scope> scopes_;
};

}  // namespace stagecraft::emulator::ptx
