#include "emulator/state/source_expressions.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "emulator/ptx/demangling.hpp"

namespace stagecraft::emulator::machine {

namespace {

using Tokens = std::vector<SourceToken>;

/// A part of the tokens of a file.
struct Part {
  const Tokens* file = nullptr;
  size_t begin = 0, end = 0;

  const Tokens& all() const { return *file; }
  size_t size() const { return end - begin; }
  const std::string& operator[](size_t i) const { return all()[begin + i].text; }
  Part from(size_t i, size_t until) const { return {file, begin + i, begin + until}; }
};

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(const std::string& text) { return !text.empty() && starts_name(text[0]); }
bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Names, numbers, literals, "->", "::", "++" and single characters; without comments and lines of the preprocessor.
Tokens tokenise(const std::string& text) {
  Tokens tokens;
  uint32_t line = 1;
  size_t line_begin = 0;
  const auto skip_line = [&](size_t at) { return std::min(text.find('\n', at), text.size()); };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      line_begin = ++at;
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
      continue;
    }
    size_t end = at + 1;
    if (c == '#' || text.compare(at, 2, "//") == 0) {
      at = skip_line(at);
      continue;
    }
    const bool is_comment = text.compare(at, 2, "/*") == 0;
    if (is_comment) {
      end = std::min(text.find("*/", at + 2), text.size() - 2) + 2;
    } else if (c == '"' || (c == '\'' && (at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0))) {
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (starts_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0) {
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    } else {
      for (const std::string_view pair : {"->", "::", "++", "+=", "==", "<=", ">="}) {
        if (text.compare(at, 2, pair) == 0) end = at + 2;
      }
    }
    const std::string token = text.substr(at, end - at);
    if (!is_comment) tokens.push_back({token, line, static_cast<uint32_t>(at - line_begin + 1)});
    for (size_t i = at; i < end; ++i) {
      if (text[i] != '\n') continue;
      ++line;
      line_begin = i + 1;
    }
    at = end;
  }
  return tokens;
}

/// The bracket that closes the one at `open`; tokens.size() where none does.
size_t closing(const Tokens& tokens, size_t open) {
  size_t depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (text == "(" || text == "[" || text == "{") ++depth;
    if ((text == ")" || text == "]" || text == "}") && --depth == 0) return i;
  }
  return tokens.size();
}

/// The bracket that opens the one closed at `close`; nothing where none does.
std::optional<size_t> opening(const Tokens& tokens, size_t close) {
  size_t depth = 0;
  for (size_t i = close + 1; i-- > 0;) {
    const std::string& text = tokens[i].text;
    if (text == ")" || text == "]" || text == "}") ++depth;
    if ((text == "(" || text == "[" || text == "{") && --depth == 0) return i;
  }
  return std::nullopt;
}

/// The arguments or parameters between the brackets at `open` and `close`.
std::vector<Part> list_between(const Tokens& tokens, size_t open, size_t close) {
  std::vector<Part> parts;
  if (close >= tokens.size()) return parts;  // both branches of an #if may have brackets
  size_t begin = open + 1;
  int depth = 0;
  for (size_t i = open + 1; i <= close; ++i) {
    const std::string& text = tokens[i].text;
    if (i == close || (text == "," && depth == 0)) {
      if (i > begin) parts.push_back({&tokens, begin, i});
      begin = i + 1;
    } else if (text == "(" || text == "[" || text == "{" || text == "<") {
      ++depth;
    } else if (text == ")" || text == "]" || text == "}" || text == ">") {
      --depth;
    }
  }
  return parts;
}

/// Reads `&storage.full[i]`, `full_ + i`, `this->full`, `address_of(&full[2])`.
/// @param through_calls  a function's value stands for the object it is given: at the operand of an asm.
std::optional<ObjectPath> read_path(Part part, bool through_calls) {
  while (part.size() > 1 && (part[0] == "&" || part[0] == "*")) part = part.from(1, part.size());
  if (part.size() > 2 && part[0] == "(" && closing(part.all(), part.begin) == part.end - 1) {
    return read_path(part.from(1, part.size() - 1), through_calls);
  }
  if (part.size() > 3 && part[part.size() - 1] == ")") {
    const auto open = opening(part.all(), part.end - 1);
    if (!open || *open <= part.begin) return std::nullopt;
    const Part inside{part.file, *open + 1, part.end - 1};
    const bool is_plain = std::all_of(
        part.all().begin() + static_cast<std::ptrdiff_t>(part.begin),
        part.all().begin() + static_cast<std::ptrdiff_t>(*open), [](const SourceToken& each) {
          return is_name(each.text) || each.text == "::" || each.text == "<" || each.text == ">" || each.text == "*";
        });
    if (!is_plain || inside.size() == 0 || !(through_calls || inside[0] == "&")) return std::nullopt;
    return read_path(inside, through_calls);
  }
  ObjectPath path;
  size_t at = 0;
  if (part.size() > 2 && part[0] == "this" && part[1] == "->") at = 2;
  for (bool expects_name = true; at < part.size();) {
    const std::string& text = part[at];
    std::vector<std::string>& names = path.index.empty() ? path.before : path.after;
    if (expects_name) {
      if (!is_name(text)) return std::nullopt;
      names.push_back(text);
      expects_name = false;
      ++at;
    } else if (text == "." || text == "->") {
      expects_name = true;
      ++at;
      if (at == part.size()) return std::nullopt;
    } else if (text == "[" || text == "+") {
      const size_t after = at + (text == "[" ? 3 : 2);
      if (after > part.size() || (text == "[" ? part[at + 2] != "]" : after != part.size())) return std::nullopt;
      if (is_number(part[at + 1])) {
        names.back() += "[" + part[at + 1] + "]";
      } else if (path.index.empty() && is_name(part[at + 1])) {
        path.index = part[at + 1];
      } else {
        return std::nullopt;
      }
      at = after;
    } else {
      return std::nullopt;
    }
  }
  return path.before.empty() ? std::nullopt : std::optional(path);
}

/// `inner`, whose first name stands for `outer`.
std::optional<ObjectPath> within(const ObjectPath& outer, const ObjectPath& inner) {
  ObjectPath path = outer;
  path.is_wrapped = outer.is_wrapped || inner.is_wrapped;
  path.is_member = inner.is_member;
  std::vector<std::string>& last = outer.index.empty() ? path.before : path.after;
  const std::string& first = inner.before.front();
  if (first.ends_with(']')) {  // the parameter's own element
    if (!outer.index.empty()) return std::nullopt;
    last.back() += first.substr(first.find('['));
  }
  last.insert(last.end(), inner.before.begin() + 1, inner.before.end());
  if (inner.index.empty()) return path;
  if (!outer.index.empty()) return std::nullopt;
  path.index = inner.index;
  path.after = inner.after;
  return path;
}

/// What stands around a place, up to the function it is in.
struct Around {
  std::vector<std::string> counters;    ///< of the loops, innermost first; "" where a loop does not count from 0 by 1
  std::vector<std::string> parameters;  ///< names
  size_t body = 0;                      ///< the brace that opens the function
};

/// The variable that a loop counts from 0 by 1; its condition and the like are between these brackets.
std::string counter_of(const Tokens& tokens, size_t open, size_t close) {
  for (size_t i = open + 1; i + 3 < close; ++i) {
    if (!is_name(tokens[i].text) || tokens[i + 1].text != "=" || tokens[i + 3].text != ";") continue;
    const std::string &start = tokens[i + 2].text, &name = tokens[i].text;
    const bool steps = (tokens[close - 2].text == "++" && tokens[close - 1].text == name) ||
                       (tokens[close - 2].text == name && tokens[close - 1].text == "++");
    return steps && (start == "0" || start == "0u") ? name : std::string();
  }
  return {};
}

/// Where control goes through a head that ends before `end` ("for (...)", "if (...)", "else", "do"), notes its loop
/// and returns where the head begins.
std::optional<size_t> pass_head(const Tokens& tokens, size_t end, Around& around) {
  if (end == 0) return std::nullopt;
  const std::string& last = tokens[end - 1].text;
  if (last == "do") around.counters.emplace_back();
  if (last == "do" || last == "else") return end - 1;
  if (last != ")") return std::nullopt;
  const auto open = opening(tokens, end - 1);
  if (!open || *open == 0) return std::nullopt;
  size_t begin = *open - 1;
  if (tokens[begin].text == "constexpr" && begin > 0) --begin;
  const std::string& keyword = tokens[begin].text;
  if (keyword == "for") around.counters.push_back(counter_of(tokens, *open, end - 1));
  if (keyword == "while") around.counters.emplace_back();
  if (keyword == "for" || keyword == "while" || keyword == "if" || keyword == "switch") return begin;
  return std::nullopt;
}

/// Goes outwards from a token through the blocks around it to the body of the function of that name.
std::optional<Around> around_of(const Tokens& tokens, size_t at, const std::string& function) {
  Around around;
  bool is_head = true;  // nothing but the beginning of a statement is between here and what is around it
  for (size_t i = at; i > 0;) {
    if (is_head) {
      if (const auto begin = pass_head(tokens, i, around)) {
        i = *begin;
        continue;
      }
    }
    const std::string& text = tokens[i - 1].text;
    if (text == "}" || text == ")" || text == "]") {
      const auto open = opening(tokens, i - 1);
      if (!open) return std::nullopt;
      const std::string before = *open == 0 ? std::string() : tokens[*open - 1].text;
      const bool is_expression =
          text != "}" || (is_name(before) && before != "else" && before != "do") || before == ">";
      is_head = is_head && is_expression;
      i = *open;
      continue;
    }
    if (text == ";") is_head = false;
    --i;
    if (text != "{") continue;
    // The head of the block: back to what ends the statement before it.
    size_t begin = i;
    while (begin > 0) {
      const std::string& before = tokens[begin - 1].text;
      if (before == ";" || before == "{" || before == "}") break;
      if (before == ")") {
        const auto open = opening(tokens, begin - 1);
        if (!open) return std::nullopt;
        begin = *open;
      } else {
        --begin;
      }
    }
    for (size_t name = begin; name + 1 < i; ++name) {
      if (tokens[name].text != function || tokens[name + 1].text != "(") continue;
      for (const Part& parameter : list_between(tokens, name + 1, closing(tokens, name + 1))) {
        size_t last = parameter.size();
        for (size_t j = 0; j < last; ++j) {
          if (parameter[j] == "=" || parameter[j] == "[") last = j;
        }
        around.parameters.push_back(last == 0 ? std::string() : parameter[last - 1]);
      }
      around.body = i;
      return around;
    }
    is_head = true;
  }
  return std::nullopt;
}

/// The tokens from a place to the end of its line, and of the statement that goes on there. (A place is that of the
/// outermost statement that begins in the line.)
Part statement_at(const Tokens& tokens, const ptx::SourceLine& place) {
  const auto first = std::find_if(tokens.begin(), tokens.end(), [&](const SourceToken& token) {
    return token.line > place.line || (token.line == place.line && token.column >= place.column);
  });
  const size_t begin = static_cast<size_t>(first - tokens.begin());
  size_t end = begin;
  const auto ends = [](const std::string& text) { return text == ";" || text == "{" || text == "}"; };
  while (end < tokens.size() && (tokens[end].line <= place.line || (end > 0 && !ends(tokens[end - 1].text)))) ++end;
  return {&tokens, begin, end};
}

/// The bracket of a call's arguments, after the name and perhaps arguments of a template; nothing where there is no
/// call.
std::optional<size_t> bracket_of_call(const Tokens& tokens, size_t name) {
  size_t at = name + 1;
  if (at < tokens.size() && tokens[at].text == "<") {
    for (int depth = 0; at < tokens.size() && tokens[at].text != ";"; ++at) {
      depth += tokens[at].text == "<" ? 1 : tokens[at].text == ">" ? -1 : 0;
      if (depth == 0) break;
    }
    ++at;
  }
  return at < tokens.size() && tokens[at].text == "(" ? std::optional(at) : std::nullopt;
}

/// The call of a function in a statement; nothing unless there is exactly one.
std::optional<size_t> call_in(const Part& statement, const std::string& function) {
  std::optional<size_t> found;
  for (size_t i = statement.begin; i < statement.end; ++i) {
    if (statement.all()[i].text != function) continue;
    if (!bracket_of_call(statement.all(), i)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

/// The object that a method is called for, before the "." or "->" that ends at `end`: "handshake", "Ring{barriers}".
std::optional<ObjectPath> object_before(const Tokens& tokens, size_t end) {
  if (end == 0) return std::nullopt;
  if (tokens[end - 1].text == "}" || tokens[end - 1].text == ")") {
    const auto open = opening(tokens, end - 1);
    if (!open) return std::nullopt;
    const std::vector<Part> made_from = list_between(tokens, *open, end - 1);
    if (made_from.size() != 1) return std::nullopt;
    auto path = read_path(made_from.front(), false);
    if (path) path->is_wrapped = true;
    return path;
  }
  size_t begin = end;
  while (begin > 0 &&
         (is_name(tokens[begin - 1].text) || tokens[begin - 1].text == "." || tokens[begin - 1].text == "->")) {
    --begin;
  }
  return read_path({&tokens, begin, end}, false);
}

/// The operand of an asm statement that is the address of `opcode`: "[%0]" is the first.
std::optional<ObjectPath> address_operand(const Part& statement, const std::string& opcode) {
  std::optional<size_t> number;
  for (size_t i = 0; i < statement.size(); ++i) {
    const std::string& text = statement[i];
    const size_t at = text.find(opcode), operand = text.find("[%", at);
    if (text[0] != '"' || at == std::string::npos || operand == std::string::npos) continue;
    if (operand + 2 >= text.size() || text[operand + 2] < '0' || text[operand + 2] > '9') return std::nullopt;
    number = static_cast<size_t>(text[operand + 2] - '0');
  }
  if (!number) return std::nullopt;
  for (size_t i = 0; i + 1 < statement.size(); ++i) {
    if (statement[i][0] != '"' || statement[i + 1] != "(") continue;
    if ((*number)-- != 0) continue;
    const size_t open = statement.begin + i + 1;
    return read_path({statement.file, open + 1, closing(statement.all(), open)}, true);
  }
  return std::nullopt;
}

/// What a local variable was set to, where that happens once before `at`: `uint32_t address =
/// shared_address(barrier);`.
std::optional<ObjectPath> value_of_local(const Tokens& tokens, size_t body, size_t at, const std::string& name) {
  std::optional<ObjectPath> value;
  for (size_t i = body; i + 1 < at; ++i) {
    if (tokens[i].text != name || tokens[i + 1].text != "=") continue;
    if (value) return std::nullopt;
    size_t end = i + 2;
    while (end < at && tokens[end].text != ";" && tokens[end].text != ",") ++end;
    value = read_path({&tokens, i + 2, end}, true);
    if (!value) return std::nullopt;
  }
  return value;
}

/// "init" of "_ZN4Ring4initEi".
std::string base_name_of(const std::string& mangled) {
  std::string name = ptx::short_function_name(mangled);
  return name.substr(0, name.find('<'));
}

}  // namespace

const Tokens& SourceExpressions::tokens_of(uint32_t file) {
  const auto [place, is_new] = files_.try_emplace(file);
  const auto path = kernel_.module->files.find(file);
  if (!is_new || path == kernel_.module->files.end()) return place->second;
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path->second, error);
  if (error || written > kernel_.module->written) return place->second;
  std::ifstream stream(path->second, std::ios::binary);
  place->second = tokenise({std::istreambuf_iterator<char>(stream), {}});
  return place->second;
}

std::optional<ObjectPath> SourceExpressions::object_of(uint32_t pc, const std::string& opcode) {
  std::optional<ObjectPath> path;
  std::string callee;        // whose call is looked for; empty at the instruction
  size_t argument = 0;       // of the call, that `path` begins with
  bool is_argument = false;  // else it is a member, of the object that the function is called for
  bool is_complete = false;  // nothing around it can say more
  const auto& lines = kernel_.module->source_lines;
  const OpPlace& place = kernel_.places[pc];
  for (ptx::SourceId id = place.source; id != 0 && id < lines.size(); id = lines[id].inlined_at) {
    const Tokens& tokens = tokens_of(lines[id].file);
    const Part statement = statement_at(tokens, lines[id]);
    if (statement.size() == 0) return std::nullopt;
    size_t at = statement.begin;
    bool has_new_index = false;
    if (callee.empty()) {
      path = address_operand(statement, opcode);
      if (!path) return std::nullopt;
      has_new_index = !path->index.empty();
    } else {
      const auto call = call_in(statement, callee);
      if (!call) return std::nullopt;
      at = *call;
      std::optional<ObjectPath> outer;
      if (is_argument) {
        const size_t open = *bracket_of_call(tokens, at);
        const std::vector<Part> arguments = list_between(tokens, open, closing(tokens, open));
        if (argument >= arguments.size()) return std::nullopt;
        outer = read_path(arguments[argument], false);
        if (!outer) return std::nullopt;
      } else if (!is_complete) {
        const bool has_object = at > 0 && (tokens[at - 1].text == "." || tokens[at - 1].text == "->");
        if (has_object) outer = object_before(tokens, at - 1);
        if (outer) path->before.insert(path->before.begin(), "this");
        is_complete = !outer;
      }
      if (outer) {
        has_new_index = !outer->index.empty();
        path = within(*outer, *path);
        if (!path) return std::nullopt;
        path->is_member = path->is_member || !is_argument;
      }
    }
    const bool is_outermost = lines[id].inlined_at == 0;
    const std::string function = base_name_of(is_outermost ? place.function->name : lines[id].function);
    const auto around = around_of(tokens, at, function);
    if (!around) return std::nullopt;
    if (callee.empty() && !path->before.empty()) {
      const std::string& root = path->before.front();
      const bool is_parameter =
          std::find(around->parameters.begin(), around->parameters.end(), root) != around->parameters.end();
      if (!is_parameter) {
        if (const auto value = value_of_local(tokens, around->body, at, root)) {
          has_new_index = has_new_index || !value->index.empty();
          path = within(*value, *path);
          if (!path) return std::nullopt;
        }
      }
    }
    // Only a loop over the elements may be around: another would give one name to several barriers.
    if (has_new_index ? around->counters != std::vector{path->index} : !around->counters.empty()) return std::nullopt;
    if (is_outermost) return place.function == kernel_.entry ? path : std::nullopt;
    const auto parameter = std::find(around->parameters.begin(), around->parameters.end(), path->before.front());
    is_argument = !is_complete && parameter != around->parameters.end();
    argument = static_cast<size_t>(parameter - around->parameters.begin());
    callee = function;
  }
  return std::nullopt;
}

}  // namespace stagecraft::emulator::machine
