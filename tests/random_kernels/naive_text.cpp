// Reads the text of a kernel for the naive interpreter.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "naive_interpreter.hpp"

namespace stagecraft::naive {

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

}  // namespace

Kernel::Kernel(const std::string& text) {
  std::map<std::string, size_t> labels;
  std::vector<std::string> targets;  // the label that each instruction names
  std::istringstream stream(text);
  bool inside = false;
  for (std::string raw; std::getline(stream, raw);) {
    std::string line = trimmed(raw.substr(0, raw.find("//")));
    if (line.starts_with(".visible .entry")) inside = true;
    if (line.starts_with(".shared")) {  // .shared .align 16 .b8 tile[4096];
      const size_t open = line.find('['), name = line.rfind(' ', open) + 1;
      const uint64_t align = std::stoul(line.substr(line.find(".align ") + 7));
      const uint64_t element = line.find(".b64") != std::string::npos ? 8 : 1;
      shared_bytes_ = (shared_bytes_ + align - 1) / align * align;
      shared_[line.substr(name, open - name)] = shared_bytes_;
      shared_bytes_ += element * std::stoul(line.substr(open + 1));
    } else if (inside && line.ends_with(":")) {
      labels[line.substr(0, line.size() - 1)] = code_.size();
    } else if (inside && line.ends_with(";") && line[0] != '.') {
      add_instruction(line.substr(0, line.size() - 1), targets);
    }
  }
  for (size_t i = 0; i < code_.size(); ++i) {
    if (!targets[i].empty()) code_[i].target = labels.at(targets[i]);
  }
}

int Kernel::register_number(const std::string& name) {
  return registers_.try_emplace(name, static_cast<int>(registers_.size())).first->second;
}

Operand Kernel::operand_of(std::string text) {
  if (text == "_") return {};
  if (const size_t plus = text.find('+'); plus != std::string::npos) {
    Operand sum = operand_of(text.substr(0, plus));
    sum.offset = std::stoull(text.substr(plus + 1));
    return sum;
  }
  if (text[0] == '%') return {Operand::Kind::reg, static_cast<uint64_t>(register_number(text))};
  if (const auto variable = shared_.find(text); variable != shared_.end())
    return {Operand::Kind::value, variable->second};
  if (text == "in" || text == "out") return {Operand::Kind::value, text == "in" ? kIn : kOut};
  if (text.starts_with("0f")) return {Operand::Kind::value, std::stoull(text.substr(2), nullptr, 16)};
  return {Operand::Kind::value,
          text[0] == '-' ? static_cast<uint64_t>(std::stoll(text)) : std::stoull(text, nullptr, 0)};
}

void Kernel::add_instruction(const std::string& line, std::vector<std::string>& targets) {
  Instruction made;
  made.text = line;
  std::string rest = line;
  if (rest[0] == '@') {
    const size_t end = rest.find(' ');
    made.guard_negated = rest[1] == '!';
    made.guard = register_number(rest.substr(made.guard_negated ? 2 : 1, end - (made.guard_negated ? 2 : 1)));
    rest = trimmed(rest.substr(end));
  }
  const size_t space = rest.find(' ');
  made.suffix = split(rest.substr(0, space), '.');
  made.name = made.suffix.front();
  made.suffix.erase(made.suffix.begin());
  std::string operands = space == std::string::npos ? "" : rest.substr(space);
  std::replace_if(
      operands.begin(), operands.end(), [](char c) { return std::strchr("[]{}|", c) != nullptr; }, ',');
  targets.emplace_back();
  for (const std::string& part : split(operands, ',')) {
    const std::string operand = trimmed(part);
    if (operand.empty()) continue;
    if (made.name == "bra") {
      targets.back() = operand;
    } else {
      made.operands.push_back(operand_of(operand));
    }
  }
  code_.push_back(std::move(made));
}

}  // namespace stagecraft::naive
