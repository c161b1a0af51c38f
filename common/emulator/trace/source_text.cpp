#include "emulator/trace/source_text.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>

namespace stagecraft::emulator::trace {

namespace {

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t\r");
  return first == std::string::npos ? std::string() : line.substr(first, last - first + 1);
}

size_t indentation(const std::string& line) { return line.find_first_not_of(" \t"); }

/// "produce" of `case Role::produce:`; empty for another line.
std::string role_of_label(const std::string& line) {
  const size_t at = line.find("case ");
  if (at == std::string::npos || at != indentation(line)) return {};
  const size_t scope = line.find("Role::", at);
  if (scope == std::string::npos) return {};
  const size_t begin = scope + std::string_view("Role::").size();
  size_t end = begin;
  while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_')) ++end;
  return end < line.size() && line[end] == ':' ? line.substr(begin, end - begin) : std::string();
}

}  // namespace

std::string role_at(const std::vector<std::string>& lines, uint32_t line) {
  if (line == 0 || line > lines.size()) return {};
  size_t inside = indentation(lines[line - 1]);
  if (inside == std::string::npos) return {};
  // Outwards: only a line that is indented less can be around the lines below it.
  for (size_t number = line; number-- > 0;) {
    const std::string& text = lines[number];
    const size_t here = indentation(text);
    if (here == std::string::npos || text[here] == '/' || text[here] == '#') continue;
    if (here > inside || (here == inside && number + 1 != line)) continue;
    if (const std::string role = role_of_label(text); !role.empty()) return role;
    if (here == 0) return {};  // the function's own line
    inside = here;
  }
  return {};
}

const std::vector<std::string>& SourceText::lines_of(uint32_t file) {
  const auto [place, is_new] = files_.try_emplace(file);
  const auto path = kernel_.module->files.find(file);
  if (is_new && path != kernel_.module->files.end()) {
    std::ifstream stream(path->second);
    for (std::string line; std::getline(stream, line);) place->second.push_back(line);
  }
  return place->second;
}

SourcePlace SourceText::place(uint32_t pc) {
  SourcePlace place;
  place.at = kernel_.describe_source(pc);
  if (place.at.empty()) place.at = kernel_.describe_instruction(pc);
  if (pc >= kernel_.places.size()) return place;
  // From the instruction outwards, through the calls it was inlined into. The role is that of the outermost switch.
  const auto& all = kernel_.module->source_lines;
  for (ptx::SourceId id = kernel_.places[pc].source; id != 0 && id < all.size(); id = all[id].inlined_at) {
    const auto file = kernel_.module->files.find(all[id].file);
    if (file == kernel_.module->files.end() || file->second != kernel_.own_file) continue;
    const std::vector<std::string>& lines = lines_of(all[id].file);
    if (all[id].line == 0 || all[id].line > lines.size()) continue;
    if (place.code.empty()) place.code = trimmed(lines[all[id].line - 1]);
    if (const std::string role = role_at(lines, all[id].line); !role.empty()) place.role = role;
  }
  return place;
}

}  // namespace stagecraft::emulator::trace
