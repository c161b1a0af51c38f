// Entries and functions: their parameters, performance-tuning directives and bodies.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/ptx/demangling.hpp"
#include "emulator/ptx/parser_state.hpp"

namespace stagecraft::emulator::ptx {
namespace {

constexpr std::string_view kFunctionDirectives =
    ".maxntid, .reqntid, .minnctapersm, .maxnreg, .reqnctapercluster, .explicitcluster, .maxclusterrank, "
    ".blocksareclusters, .noreturn, .pragma, .abi_preserve, .abi_preserve_control, `{`, `;`";

bool same_shape(const std::vector<Variable>& left, const std::vector<Variable>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const Variable& a, const Variable& b) {
    return a.space == b.space && (a.size == b.size || a.size == 0 || b.size == 0);
  });
}

/// Whether a directive begins a declaration. ptxas accepts function declarations without `;`, which the next one ends.
bool begins_declaration(std::string_view directive) {
  constexpr std::string_view kDirectives[] = {"visible", "extern", "weak",  "common",  "func",
                                              "entry",   "global", "const", "section", "shared"};
  return std::find(std::begin(kDirectives), std::end(kDirectives), directive) != std::end(kDirectives);
}

/// Refuses what ptxas 13.0 refuses about the head of a kernel, and the directives of a kernel at another function.
void require_kernel(const Function& function) {
  const bool bounded = function.max_threads.x != 0, fixed = function.required_threads.x != 0;
  if (!function.is_entry) {
    if (!bounded && !fixed && function.cluster.x == 0 && function.min_blocks_per_sm == 0 &&
        function.max_registers == 0 && function.max_cluster_rank == 0) {
      return;
    }
    throw SyntaxError(fmt::format("function `{}` has a directive of kernels", short_function_name(function.name)),
                      function.position, ".maxntid, .reqntid, .minnctapersm, .maxnreg and clusters for an .entry only");
  }
  if (bounded && fixed) {
    throw SyntaxError(fmt::format("kernel `{}` has both .maxntid and .reqntid", short_function_name(function.name)),
                      function.position, "one of them");
  }
  for (const Variable& parameter : function.parameters) {
    if (parameter.space == Space::reg) {
      throw SyntaxError(fmt::format("the parameter `{}` of a kernel is a register", parameter.name), parameter.position,
                        ".param");
    }
    if (parameter.size == 0) {
      throw SyntaxError(fmt::format("the parameter `{}` of a kernel has no size", parameter.name), parameter.position,
                        "an array with the number of its elements");
    }
  }
}

}  // namespace

void Parser::function(bool is_entry, const Linkage& linkage) {
  Function function;
  function.is_entry = is_entry;
  function.is_visible = linkage.is_visible || linkage.is_weak || linkage.is_extern;
  function.is_weak = linkage.is_weak;
  std::vector<Token> returns;
  std::vector<Token> parameters;
  Declaration ignored;
  if (next_is_directive("attribute")) attributes(ignored);
  if (next_is('(')) {
    if (is_entry) unexpected("after `.entry`", "the name of the kernel, which returns nothing");
    function.returns = parameter_list(returns);
  }
  const Token name = expect_identifier(is_entry ? "the name of a kernel" : "the name of a function");
  function.name = name.text;
  function.position = name.position;
  if (next_is('(')) function.parameters = parameter_list(parameters);
  bool ends_here = false;
  while (peek().kind == TokenKind::dotted && !ends_here) {
    if (function_directive(function)) continue;
    ends_here = begins_declaration(peek().text);
    if (!ends_here) unexpected("between the head and the body of a function", kFunctionDirectives);
  }
  require_kernel(function);
  if (ends_here || take_if(';')) {
    function.is_declaration = true;
    place_function(std::move(function), name);
    return;
  }
  if (!next_is('{')) unexpected("after the head of a function", kFunctionDirectives);
  if (linkage.is_extern) {
    throw SyntaxError(fmt::format("`.extern` function `{}` has a body", name.text), peek().position, "`;`");
  }
  // The name is placed before the body is read, because functions may call themselves. The vector may grow while the
  // body is read, so the body is read into a function of its own.
  Function head;
  head.name = function.name;
  head.is_entry = is_entry;
  head.returns = function.returns;
  head.parameters = function.parameters;
  head.position = function.position;
  const uint32_t index = place_function(std::move(head), name);
  body(function, returns, parameters);
  function.is_visible |= module_.functions[index].is_visible;  // an earlier declaration may be visible
  function.is_weak |= module_.functions[index].is_weak;
  module_.functions[index] = std::move(function);
}

uint32_t Parser::place_function(Function function, const Token& name) {
  const auto index = static_cast<uint32_t>(module_.functions.size());
  const auto [entry, inserted] = symbols_.emplace(name.text, ModuleSymbol{true, index});
  if (inserted) {
    module_.functions.push_back(std::move(function));
    return index;
  }
  if (!entry->second.is_function) {
    throw SyntaxError(fmt::format("`{}` is already the name of a variable", name.text), name.position);
  }
  Function& earlier = module_.functions[entry->second.index];
  const std::string where = fmt::format("line {}, column {}", earlier.position.line, earlier.position.column);
  if (!earlier.is_declaration && !function.is_declaration) {
    throw SyntaxError(fmt::format("function `{}` is defined twice, first in {}", name.text, where), name.position);
  }
  if (earlier.is_entry != function.is_entry || !same_shape(earlier.parameters, function.parameters) ||
      !same_shape(earlier.returns, function.returns)) {
    throw SyntaxError(fmt::format("function `{}` does not have the parameters declared in {}", name.text, where),
                      name.position, "the same parameters in every declaration");
  }
  if (earlier.is_declaration) {
    function.is_noreturn |= earlier.is_noreturn;
    function.is_visible |= earlier.is_visible;
    function.is_weak |= earlier.is_weak;
    earlier = std::move(function);
  }
  return entry->second.index;
}

Extents Parser::extents() {
  Extents extents{1, 1, 1};
  const TextPosition position = peek().position;
  extents.x = expect_uint32("an extent");
  if (take_if(',')) extents.y = expect_uint32("an extent");
  if (take_if(',')) extents.z = expect_uint32("an extent");
  if (extents.x == 0 || extents.y == 0 || extents.z == 0) {
    throw SyntaxError("an extent is 0", position, "at least 1 in every dimension");
  }
  return extents;
}

bool Parser::function_directive(Function& function) {
  const std::string_view name = peek().text;
  if (name == "maxntid") {
    take();
    function.max_threads = extents();
  } else if (name == "reqntid") {
    take();
    function.required_threads = extents();
  } else if (name == "reqnctapercluster") {
    take();
    function.cluster = extents();
  } else if (name == "minnctapersm" || name == "maxnctapersm") {
    take();
    function.min_blocks_per_sm = expect_positive("a number of blocks");
  } else if (name == "maxnreg") {
    take();
    function.max_registers = expect_positive("a number of registers");
  } else if (name == "maxclusterrank") {
    take();
    function.max_cluster_rank = expect_uint32("a number of blocks");
  } else if (name == "explicitcluster") {
    take();
    function.explicit_cluster = true;
  } else if (name == "blocksareclusters") {
    take();
    function.blocks_are_clusters = true;
  } else if (name == "noreturn") {
    take();
    function.is_noreturn = true;
  } else if (name == "abi_preserve" || name == "abi_preserve_control") {
    take();
    expect_uint32("a number of registers");
  } else if (name == "pragma") {
    take();
    do expect_string("a pragma");
    while (take_if(','));
    expect(';', "after `.pragma`");
  } else if (name == "file") {
    file();
  } else if (name == "loc") {
    location();
  } else {
    return false;
  }
  return true;
}

void Parser::declare_parameters(const std::vector<Variable>& variables, const std::vector<Token>& names,
                                Symbol::Kind kind) {
  for (size_t i = 0; i < variables.size(); ++i) {
    Symbol symbol;
    symbol.position = names[i].position;
    if (variables[i].space == Space::reg) {
      symbol.kind = Symbol::Kind::scalar_register;
      symbol.index = scopes_->add_registers(names[i].text, variables[i].type, 1);
    } else {
      symbol.kind = kind;
      symbol.index = static_cast<uint32_t>(i);
    }
    if (names[i].text != "_") scopes_->declare(names[i].text, symbol);
  }
}

void Parser::body(Function& function, const std::vector<Token>& return_names,
                  const std::vector<Token>& parameter_names) {
  function_ = &function;
  source_ = 0;
  source_is_certain_ = true;
  latest_at_place_.clear();
  ambiguous_places_.clear();
  scopes_.emplace(function);
  declare_parameters(function.returns, return_names, Symbol::Kind::return_value);
  declare_parameters(function.parameters, parameter_names, Symbol::Kind::parameter);
  // The parameters have a scope of their own around the body's.
  scopes_->open(peek().position);
  expect('{', "before the body of a function");
  while (scopes_->depth() > 1) statement();
  scopes_->finish();
  scopes_.reset();
  function_ = nullptr;
  source_ = 0;
}

void Parser::statement() {
  const Token& token = peek();
  if (token.kind == TokenKind::identifier) {
    if (peek(1).is(':')) {
      label();
    } else {
      instruction();
    }
  } else if (token.kind == TokenKind::dotted) {
    scope_directive();
  } else if (token.is('@')) {
    instruction();
  } else if (token.is('{')) {
    scopes_->open(token.position);
    take();
  } else if (token.is('}')) {
    take();
    scopes_->close();
  } else if (token.is(';')) {
    take();  // an empty statement, as concatenated inline assembly contains
  } else {
    unexpected(fmt::format("in function `{}`", short_function_name(function_->name)),
               "an instruction, a label, a declaration (.reg, .local, .shared, .param), `{`, `}`");
  }
}

void Parser::scope_directive() {
  constexpr std::string_view kLegal =
      ".reg, .local, .shared, .param, .global, .const, .loc, .pragma, or a label before .branchtargets, .calltargets "
      "and .callprototype";
  const std::string_view name = peek().text;
  const TextPosition position = peek().position;
  Linkage linkage;
  if (name == "reg") {
    take();
    registers();
  } else if (name == "local" || name == "shared" || name == "param" || name == "global" || name == "const") {
    take();
    static constexpr std::pair<std::string_view, Space> kSpaces[] = {{"local", Space::local},
                                                                     {"shared", Space::shared},
                                                                     {"param", Space::param},
                                                                     {"global", Space::global},
                                                                     {"const", Space::constant}};
    const auto* space = std::find_if(std::begin(kSpaces), std::end(kSpaces), [&](auto& s) { return s.first == name; });
    variables(space->second, linkage);
  } else if (name == "extern") {
    linkage = Parser::linkage();
    if (!take_directive_if("shared")) unexpected("after `.extern` inside a function", ".shared");
    variables(Space::shared, linkage);
  } else if (name == "loc") {
    location();
  } else if (name == "file") {
    file();
  } else if (name == "pragma") {
    function_directive(*function_);
  } else {
    static const std::vector<std::string_view> kNames{"reg",    "local", "shared", "param",
                                                      "global", "const", "loc",    "pragma"};
    throw SyntaxError(fmt::format("unknown directive `.{}` in function `{}`{}", name,
                                  short_function_name(function_->name), suggestion(name, kNames, ".")),
                      position, std::string(kLegal));
  }
}

void Parser::label() {
  const Token name = take();
  expect(':', "after a label");
  if (next_is_directive("branchtargets") || next_is_directive("calltargets")) {
    table(name);
    return;
  }
  if (next_is_directive("callprototype")) {
    call_prototype(name);
    return;
  }
  Symbol symbol;
  symbol.kind = Symbol::Kind::label;
  symbol.index = static_cast<uint32_t>(function_->body.size());
  symbol.position = name.position;
  scopes_->declare(name.text, symbol);
  if (scopes_->depth() == 2) function_->labels.emplace(name.text, symbol.index);
}

void Parser::table(const Token& name) {
  Symbol symbol;
  symbol.position = name.position;
  const bool is_branch_table = take().text == "branchtargets";
  if (is_branch_table) {
    symbol.kind = Symbol::Kind::branch_table;
    symbol.index = static_cast<uint32_t>(function_->branch_tables.size());
    BranchTable& table = function_->branch_tables.emplace_back();
    table.name = name.text;
    do {
      const Token target = expect_identifier("a label");
      Reference reference;
      reference.name = target.text;
      reference.position = target.position;
      reference.in_table = true;
      reference.owner = symbol.index;
      reference.item = static_cast<uint32_t>(table.targets.size());
      scopes_->add_reference(reference);
      table.targets.push_back(0);
    } while (take_if(','));
  } else {
    symbol.kind = Symbol::Kind::call_table;
    symbol.index = static_cast<uint32_t>(function_->call_tables.size());
    CallTable& table = function_->call_tables.emplace_back();
    table.name = name.text;
    do {
      const Token target = expect_identifier("a function");
      const auto found = symbols_.find(target.text);
      if (found == symbols_.end() || !found->second.is_function) unknown_name(target);
      table.functions.push_back(found->second.index);
    } while (take_if(','));
  }
  expect(';', "after a table of targets");
  scopes_->declare(name.text, symbol);
}

void Parser::call_prototype(const Token& name) {
  take();
  Prototype prototype;
  prototype.name = name.text;
  std::vector<Token> names;
  if (next_is('(')) prototype.returns = parameter_list(names);
  expect_identifier("`_`, which stands for the function's name");
  if (next_is('(')) prototype.parameters = parameter_list(names);
  Function ignored;
  while (peek().kind == TokenKind::dotted) {
    if (!function_directive(ignored)) unexpected("in `.callprototype`", ".noreturn, .abi_preserve, `;`");
  }
  expect(';', "after `.callprototype`");
  Symbol symbol;
  symbol.kind = Symbol::Kind::prototype;
  symbol.index = static_cast<uint32_t>(function_->prototypes.size());
  symbol.position = name.position;
  scopes_->declare(name.text, symbol);
  function_->prototypes.push_back(std::move(prototype));
}

}  // namespace stagecraft::emulator::ptx
