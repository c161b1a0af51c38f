#include "emulator/ptx/parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/ptx/demangling.hpp"
#include "emulator/ptx/parser_state.hpp"

namespace stagecraft::emulator::ptx {

Module parse(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return Parser(text).parse();
}

void require_constant_space(const Module& module) {
  constexpr uint64_t kMost = 65536;
  uint64_t bytes = 0;
  for (const Variable& variable : module.variables) {
    if (variable.space != Space::constant || variable.is_extern) continue;
    const uint64_t alignment = std::max<uint64_t>(variable.alignment, 1);
    bytes = std::min(bytes + alignment - 1, UINT64_MAX / 4) / alignment * alignment + variable.size;
    if (bytes <= kMost && variable.size <= kMost) continue;
    throw Error(fmt::format("the .const variables up to `{}` take {} bytes", short_function_name(variable.name), bytes),
                variable.position, fmt::format("{} bytes in a module; larger tables belong in .global", kMost));
  }
}

std::string suggestion(std::string_view name, const std::vector<std::string_view>& candidates,
                       std::string_view prefix) {
  const std::string_view meant = closest_name(name, candidates);
  return meant.empty() ? std::string() : fmt::format("; did you mean `{}{}`?", prefix, meant);
}

Parser::Parser(std::string_view text) : lexer_(text) {}

Module Parser::parse() {
  header();
  while (peek().kind != TokenKind::end) module_statement();
  finish_aliases();
  finish_locations();
  require_constant_space(module_);
  return std::move(module_);
}

const Token& Parser::peek(size_t ahead) {
  while (ahead_count_ <= ahead) ahead_[ahead_count_++] = lexer_.next();
  return ahead_[ahead];
}

Token Parser::take() {
  const Token token = peek();
  ahead_[0] = ahead_[1];
  --ahead_count_;
  return token;
}

bool Parser::take_if(char character) {
  if (!next_is(character)) return false;
  take();
  return true;
}

bool Parser::take_directive_if(std::string_view name) {
  if (!next_is_directive(name)) return false;
  take();
  return true;
}

void Parser::unexpected(std::string_view context, std::string_view legal) {
  throw SyntaxError(fmt::format("unexpected {} {}", describe(peek()), context), peek().position, std::string(legal));
}

void Parser::expect(char character, std::string_view context, std::string_view legal) {
  if (!take_if(character)) unexpected(context, legal.empty() ? fmt::format("`{}`", character) : std::string(legal));
}

Token Parser::expect_identifier(std::string_view what) {
  if (peek().kind != TokenKind::identifier) {
    throw SyntaxError(fmt::format("unexpected {} instead of {}", describe(peek()), what), peek().position,
                      "a name: letters, digits, `_` and `$`, not beginning with a digit");
  }
  return take();
}

std::string Parser::expect_string(std::string_view what) {
  if (peek().kind != TokenKind::string) {
    throw SyntaxError(fmt::format("unexpected {} instead of {}", describe(peek()), what), peek().position,
                      "a string in double quotes");
  }
  return unescape(take().text);
}

uint32_t Parser::expect_uint32(std::string_view what) {
  if (peek().kind != TokenKind::integer || peek().bits > UINT32_MAX) {
    throw SyntaxError(fmt::format("unexpected {} instead of {}", describe(peek()), what), peek().position,
                      "an integer from 0 to 4294967295");
  }
  return static_cast<uint32_t>(take().bits);
}

uint32_t Parser::expect_positive(std::string_view what) {
  const TextPosition position = peek().position;
  const uint32_t number = expect_uint32(what);
  if (number == 0) throw SyntaxError(fmt::format("{} is 0", what), position, "at least 1");
  return number;
}

void Parser::header() {
  if (!take_directive_if("version")) unexpected("at the beginning of the text", "`.version`, as in `.version 9.0`");
  // "9.0" reads as a number; its digits are the version.
  const Token version = take();
  const std::string_view text = version.text;
  const size_t point = text.find('.');
  const auto is_number = [](std::string_view digits) {
    return !digits.empty() && digits.size() <= 4 &&
           std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (version.kind != TokenKind::float64 || point == std::string_view::npos || !is_number(text.substr(0, point)) ||
      !is_number(text.substr(point + 1))) {
    throw SyntaxError(fmt::format("unexpected {} instead of the PTX version", describe(version)), version.position,
                      "a number such as 9.0");
  }
  module_.version_major = static_cast<uint32_t>(std::stoul(std::string(text.substr(0, point))));
  module_.version_minor = static_cast<uint32_t>(std::stoul(std::string(text.substr(point + 1))));
  if (!take_directive_if("target")) unexpected("after `.version`", "`.target`, as in `.target sm_100a`");
  target();
}

namespace {

struct Version {
  uint32_t major = 0, minor = 0;
  auto operator<=>(const Version&) const = default;
};

/// The first version of PTX that has the target; 0.0 for one that is not known here, or older than any that matters.
/// Source: ptxas 13.0, asked for each.
Version first_version_with(std::string_view target) {
  static constexpr std::pair<std::string_view, Version> kFirst[] = {
      {"80", {7, 0}},   {"86", {7, 1}},  {"87", {7, 4}},   {"88", {7, 3}},   {"89", {7, 8}},  {"90", {7, 8}},
      {"90a", {8, 0}},  {"100", {8, 6}}, {"100a", {8, 6}}, {"100f", {8, 8}}, {"103", {8, 8}}, {"103a", {8, 8}},
      {"103f", {8, 8}}, {"110", {9, 0}}, {"110a", {9, 0}}, {"110f", {9, 0}}, {"120", {8, 7}}, {"120a", {8, 7}},
      {"120f", {8, 8}}, {"121", {8, 8}}, {"121a", {8, 8}}, {"121f", {8, 8}}};
  target.remove_prefix(target.find('_') + 1);
  const auto* found =
      std::find_if(std::begin(kFirst), std::end(kFirst), [target](const auto& known) { return known.first == target; });
  return found == std::end(kFirst) ? Version{} : found->second;
}

}  // namespace

void Parser::target() {
  do {
    const Token name = expect_identifier("a target");
    if (name.text.starts_with("sm_") || name.text.starts_with("compute_")) {
      module_.target = name.text;
      const Version first = first_version_with(name.text), version{module_.version_major, module_.version_minor};
      if (version < first) {
        throw SyntaxError(fmt::format("PTX {}.{} does not have the target {}", version.major, version.minor, name.text),
                          name.position, fmt::format("`.version` {}.{} or later", first.major, first.minor));
      }
    } else if (name.text != "debug" && name.text != "texmode_unified" && name.text != "texmode_independent" &&
               name.text != "map_f64_to_f32") {
      throw SyntaxError(fmt::format("unknown target `{}`", name.text), name.position,
                        "sm_90a, sm_100a or another architecture, debug, texmode_unified, texmode_independent");
    }
  } while (take_if(','));
  if (module_.target.empty()) unexpected("after a `.target` without architecture", "an architecture such as sm_100a");
}

void Parser::module_statement() {
  constexpr std::string_view kLegal =
      ".visible, .weak, .extern, .common, .entry, .func, .global, .const, .shared, .address_size, .file, .section, "
      ".pragma, .alias";
  const Linkage how = linkage();
  const bool linked = how.is_extern || how.is_visible || how.is_weak || how.is_common;
  if (peek().kind != TokenKind::dotted) unexpected("outside of a function", kLegal);
  const std::string_view name = peek().text;
  if (name == "entry" || name == "func") {
    take();
    function(name == "entry", how);
  } else if (name == "global") {
    take();
    variables(Space::global, how);
  } else if (name == "const") {
    take();
    variables(Space::constant, how);
  } else if (name == "shared") {
    take();
    variables(Space::shared, how);
  } else if (name == "local") {
    take();
    variables(Space::local, how);
  } else if (linked) {
    unexpected("after a linking directive", ".entry, .func, .global, .const, .shared");
  } else if (name == "address_size") {
    take();
    module_.address_size = expect_uint32("the address size");
    if (module_.address_size != 64) {
      throw SyntaxError(fmt::format("addresses of {} bits are not supported", module_.address_size), how.position,
                        "64");
    }
  } else if (name == "target") {
    take();
    target();
  } else if (name == "file") {
    file();
  } else if (name == "loc") {
    location();
  } else if (name == "section") {
    section();
  } else if (name == "alias") {
    alias();
  } else if (name == "pragma") {
    take();
    do expect_string("a pragma");
    while (take_if(','));
    expect(';', "after `.pragma`");
  } else {
    static const std::vector<std::string_view> kNames{"visible", "weak",    "extern", "common", "entry",
                                                      "func",    "global",  "const",  "shared", "address_size",
                                                      "file",    "section", "pragma", "alias",  "target"};
    if (name == "version") {
      throw SyntaxError("`.version` is given twice", peek().position, "once, as the first directive of the text");
    }
    throw SyntaxError(
        fmt::format("unknown directive {} outside of a function{}", describe(peek()), suggestion(name, kNames, ".")),
        peek().position, std::string(kLegal));
  }
}

Parser::Linkage Parser::linkage() {
  Linkage linkage;
  linkage.position = peek().position;
  for (;; take()) {
    if (next_is_directive("extern")) {
      linkage.is_extern = true;
    } else if (next_is_directive("visible")) {
      linkage.is_visible = true;
    } else if (next_is_directive("weak")) {
      linkage.is_weak = true;
    } else if (next_is_directive("common")) {
      linkage.is_common = true;
    } else {
      return linkage;
    }
  }
}

void Parser::alias() {
  take();
  const auto function_index = [&] {
    const Token name = expect_identifier("the name of a function");
    const auto found = symbols_.find(name.text);
    if (found == symbols_.end() || !found->second.is_function) {
      throw SyntaxError(fmt::format("`.alias` names `{}`, which is not a declared function", name.text), name.position);
    }
    return found->second.index;
  };
  Alias alias;
  alias.position = peek().position;
  alias.alias = function_index();
  expect(',', "in `.alias`");
  alias.target = function_index();
  expect(';', "after `.alias`");
  aliases_.push_back(alias);
}

void Parser::finish_aliases() {
  // Each alias is a copy, so that few bytes of text could ask for any amount of memory.
  constexpr size_t kMostCopied = size_t{1} << 18;
  size_t copied = 0;
  for (const Alias& alias : aliases_) {
    const Function& target = module_.functions[alias.target];
    Function& function = module_.functions[alias.alias];
    if (target.is_declaration || !function.is_declaration) {
      throw SyntaxError(fmt::format("`.alias {}, {}` is impossible", function.name, target.name), alias.position,
                        "a function that is only declared, then one that is defined");
    }
    copied += target.body.size();
    if (copied > kMostCopied) {
      throw SyntaxError("the functions that `.alias` repeats are too long", alias.position,
                        fmt::format("{} instructions in all aliases together", kMostCopied));
    }
    Function copy = target;
    copy.name = std::move(function.name);
    copy.is_visible = function.is_visible;
    copy.is_weak = function.is_weak;
    function = std::move(copy);
  }
}

}  // namespace stagecraft::emulator::ptx
