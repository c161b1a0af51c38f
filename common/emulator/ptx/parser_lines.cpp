// Source lines of the PTX: .file, .loc and the strings of .debug_str that .loc refers to.
#include <fmt/format.h>

#include <utility>

#include "emulator/ptx/parser_state.hpp"

namespace stagecraft::emulator::ptx {

void Parser::file() {
  take();
  const uint32_t number = expect_uint32("the number of a file");
  module_.files[number] = expect_string("the name of a file");
  // Its time stamp and size may follow.
  if (take_if(',')) {
    expect_size("the time stamp of a file");
    if (take_if(',')) expect_size("the size of a file");
  }
}

void Parser::location() {
  take();
  SourceLine line;
  line.file = expect_uint32("the number of a file");
  line.line = expect_uint32("a line");
  line.column = expect_uint32("a column");
  const Place place{line.file, line.line, line.column};
  FunctionName function;
  bool is_certain = true;
  while (take_if(',')) {
    const Token attribute = expect_identifier("`function_name` or `inlined_at`");
    if (attribute.text == "function_name") {
      function.given = true;
      function.position = peek().position;
      if (!take_directive_if("debug_str")) function.label = expect_identifier("a label of .debug_str").text;
      function.offset = static_cast<uint64_t>(offset());
    } else if (attribute.text == "inlined_at") {
      const uint32_t at_file = expect_uint32("the number of a file");
      const uint32_t at_line = expect_uint32("a line");
      const uint32_t at_column = expect_uint32("a column");
      // The call may itself be inlined: then an earlier .loc described that place.
      const Place at_place{at_file, at_line, at_column};
      SourceId& at = latest_at_place_[at_place];
      // The compiler describes each call once. It means the latest at this place only if there is no other, or if it
      // has just described it.
      is_certain = at == source_ ? source_is_certain_ : !ambiguous_places_.contains(at_place);
      if (at == 0) {
        at = static_cast<SourceId>(module_.source_lines.size());
        module_.source_lines.push_back({at_file, at_line, at_column, {}, 0});
      }
      line.inlined_at = at;
    } else {
      throw SyntaxError(fmt::format("unexpected {} in `.loc`", describe(attribute)), attribute.position,
                        "function_name, inlined_at");
    }
  }
  const LineKey key{line.file, line.line, line.column, function.label, function.offset, line.inlined_at};
  const auto [entry, inserted] = lines_.emplace(key, static_cast<SourceId>(module_.source_lines.size()));
  if (inserted) {
    if (function.given) function_names_.emplace_back(entry->second, function);
    module_.source_lines.push_back(std::move(line));
  }
  source_ = entry->second;
  source_is_certain_ = is_certain;
  SourceId& latest = latest_at_place_[place];
  if (!is_certain || (latest != 0 && latest != source_)) ambiguous_places_.insert(place);
  latest = source_;
}

void Parser::section() {
  take();
  if (peek().kind != TokenKind::dotted && peek().kind != TokenKind::identifier) {
    unexpected("after `.section`", "the name of a debug section");
  }
  const Token name = take();
  expect('{', "before the contents of a section");
  if (name.text == "debug_str") {
    debug_strings();
    return;
  }
  // This is DWARF for a debugger; the emulator does not use it.
  for (size_t depth = 1; depth > 0;) {
    const Token token = take();
    if (token.kind == TokenKind::end) throw SyntaxError("this section does not end", name.position, "`}`");
    if (token.is('{')) ++depth;
    if (token.is('}')) --depth;
  }
}

void Parser::debug_strings() {
  while (!take_if('}')) {
    if (peek().kind == TokenKind::identifier && peek(1).is(':')) {
      debug_labels_[take().text] = debug_text_.size();
      take();
      continue;
    }
    if (peek().kind != TokenKind::dotted) unexpected("in .debug_str", "a label, .b8, `}`");
    const Token directive = take();
    const uint32_t size = size_of(type_from_name(directive.text));
    if (size == 0 || size > 8) {
      throw SyntaxError(fmt::format("unexpected {} in .debug_str", describe(directive)), directive.position, ".b8");
    }
    do {
      const Constant value = constant();
      for (uint32_t i = 0; i < size; ++i) debug_text_ += static_cast<char>(value.bits >> (8 * i));
    } while (take_if(','));
  }
}

void Parser::finish_locations() {
  for (const auto& [source, name] : function_names_) {
    uint64_t begin = name.offset;
    if (!name.label.empty()) {
      const auto label = debug_labels_.find(name.label);
      if (label == debug_labels_.end()) {
        throw SyntaxError(fmt::format("`{}` is not a label of .debug_str", name.label), name.position);
      }
      begin += label->second;
    }
    if (begin >= debug_text_.size()) {
      throw SyntaxError("this function_name is outside of .debug_str", name.position,
                        fmt::format("offsets below {}", debug_text_.size()));
    }
    module_.source_lines[source].function = debug_text_.c_str() + begin;
  }
}

}  // namespace stagecraft::emulator::ptx
