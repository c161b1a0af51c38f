#include "emulator/state/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "emulator/ptx/modifiers.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::machine {

namespace {

bool is_toolkit_file(const std::string& path) {
  for (const char* part :
       {"/cccl/", "/crt/", "/cuda/", "/cuda-", "/nvidia/cu13/", "cuda_runtime", "/cooperative_groups"}) {
    if (path.find(part) != std::string::npos && path.find("/include/") != std::string::npos) return true;
  }
  return path.ends_with("_intrinsics.hpp") || path.ends_with("_functions.h");
}

std::string base_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// Whether the functions at `depth` of these chains of calls (outermost first) do nothing but call another one.
bool only_call(const std::vector<std::vector<ptx::SourceId>>& chains, size_t depth, const ptx::Module& module) {
  std::set<std::pair<uint32_t, uint32_t>> calls;
  size_t inside = 0, own = 0;
  for (const auto& chain : chains) {
    if (chain.size() <= depth) continue;
    if (chain.size() == depth + 1) {
      ++own;
      continue;
    }
    ++inside;
    const ptx::SourceLine& line = module.source_lines[chain[depth]];
    calls.emplace(line.file, line.line);
  }
  constexpr size_t kFew = 10;  // loads of parameters and the like: less than a tenth
  return calls.size() == 1 && own * kFew < inside;
}

}  // namespace

std::string own_file_of(const ptx::Module& module, const ptx::Function& entry) {
  std::vector<std::vector<ptx::SourceId>> chains;
  for (const ptx::Instruction& instruction : entry.body) {
    std::vector<ptx::SourceId> chain;
    for (ptx::SourceId id = instruction.source; id != 0 && id < module.source_lines.size();
         id = module.source_lines[id].inlined_at) {
      chain.push_back(id);
    }
    if (chain.empty()) continue;
    std::reverse(chain.begin(), chain.end());
    chains.push_back(std::move(chain));
  }
  if (chains.empty()) return {};
  size_t depth = 0;
  while (only_call(chains, depth, module)) ++depth;
  const auto deep_enough =
      std::find_if(chains.begin(), chains.end(), [&](const auto& chain) { return chain.size() > depth; });
  const auto file = module.files.find(module.source_lines[(*deep_enough)[depth]].file);
  return file == module.files.end() ? std::string() : file->second;
}

namespace {

/// The largest number of registers that a setmaxnreg of the entry function asks for; 0 without one.
uint32_t most_registers_asked(const Kernel& kernel) {
  const std::vector<InstructionTraits>& traits = kernel.traits.at(kernel.entry);
  uint64_t most = 0;
  for (size_t i = 0; i < traits.size(); ++i) {
    if (traits[i].sets_register_count) most = std::max(most, kernel.entry->body[i].operands.front().bits);
  }
  return static_cast<uint32_t>(most);
}

}  // namespace

uint32_t Kernel::launch_registers() const {
  // Without these bounds ptxas ignores setmaxnreg: "unable to determine register count at entry" (ptxas 13.0, C7508).
  const ptx::Extents& extents = entry->required_threads.x != 0 ? entry->required_threads : entry->max_threads;
  const bool is_bounded = extents.x != 0 && entry->min_blocks_per_sm != 0;
  if (entry->max_registers == 0 && !is_bounded) return 0;
  if (machine_registers != 0) return machine_registers;
  if (entry->max_registers != 0) return entry->max_registers;
  // What ptxas 13.0 allocates in a kernel with setmaxnreg, as 40 pairs of bounds and counts showed: all that there is
  // for the warps of the fewest blocks, in fours, in units of 8; but no more than any setmaxnreg asks for, nor than
  // 255.
  constexpr uint32_t kOfMultiprocessor = 2048, kUnit = 8, kMost = 255;  // for each lane of a warp
  const uint32_t warps = warps_of(uint64_t{extents.x} * extents.y * extents.z);
  const uint32_t resident = (warps * entry->min_blocks_per_sm + 3) / 4 * 4;
  return std::min({kOfMultiprocessor / resident / kUnit * kUnit, most_registers_asked(*this), kMost});
}

std::string Kernel::describe_source(uint32_t pc) const {
  return pc < places.size() ? describe_line(places[pc].source) : std::string();
}

std::string Kernel::describe_line(ptx::SourceId source) const {
  // Goes from the innermost line outwards, through the calls it was inlined into. The reader looks for a line of their
  // own program: a line of a toolkit header does not help, and a library's line helps only next to the reader's own.
  std::string innermost, own;
  const auto& lines = module->source_lines;
  for (ptx::SourceId id = source; id != 0 && id < lines.size(); id = lines[id].inlined_at) {
    const ptx::SourceLine& line = lines[id];
    const auto file = module->files.find(line.file);
    if (file == module->files.end() || line.line == 0 || is_toolkit_file(file->second)) continue;
    const std::string text = fmt::format("{}:{}", base_name(file->second), line.line);
    if (innermost.empty()) innermost = text;
    if (own.empty() && file->second == own_file) own = text;
  }
  if (own.empty() || own == innermost) return innermost;
  return fmt::format("{} ({})", own, innermost);
}

std::vector<std::string> Kernel::describe_calls(uint32_t pc) const {
  std::vector<std::string> calls;
  if (pc >= places.size()) return calls;
  const auto& lines = module->source_lines;
  const std::string* inner = nullptr;
  for (ptx::SourceId id = places[pc].source; id != 0 && id < lines.size(); id = lines[id].inlined_at) {
    const auto file = module->files.find(lines[id].file);
    if (file == module->files.end() || lines[id].line == 0 || is_toolkit_file(file->second)) continue;
    // Calls within a library are its own business.
    if (inner != nullptr && *inner == file->second && *inner != own_file) continue;
    inner = &file->second;
    std::string text = fmt::format("{}:{}", base_name(file->second), lines[id].line);
    if (calls.empty() || calls.back() != text) calls.push_back(std::move(text));
  }
  std::reverse(calls.begin(), calls.end());
  const std::string source = describe_source(pc);
  const bool all_named = std::all_of(calls.begin(), calls.end(), [&](const std::string& call) {
    return source == call || source.starts_with(call + " (") || source.ends_with("(" + call + ")");
  });
  if (all_named) calls.clear();
  return calls;
}

std::string Kernel::source_file() const {
  if (own_file.empty()) return {};
  std::error_code error;
  const std::filesystem::path relative =
      std::filesystem::relative(own_file, std::filesystem::current_path(error), error);
  if (error || relative.empty() || *relative.begin() == "..") return base_name(own_file);
  return relative.string();
}

std::string Kernel::describe_instruction(uint32_t pc) const {
  if (pc >= places.size() || places[pc].function == nullptr) return {};
  const auto& body = places[pc].function->body;
  if (places[pc].instruction >= body.size()) return "ret";
  return ptx::spelling(body[places[pc].instruction]);
}

const InstructionTraits& Kernel::traits_at(uint32_t pc) const {
  if (pc >= places.size()) return kOrdinary;
  const auto of_function = traits.find(places[pc].function);
  if (of_function == traits.end() || places[pc].instruction >= of_function->second.size()) return kOrdinary;
  return of_function->second[places[pc].instruction];
}

std::string Kernel::name_of_shared(uint32_t offset, uint32_t element_bytes) const {
  for (const SharedVariable& variable : shared_variables) {
    if (variable.size == 0 || offset < variable.offset || offset >= variable.offset + variable.size) continue;
    const uint32_t inside = offset - variable.offset;
    if (inside == 0 && variable.size == element_bytes) return variable.name;
    if (inside % element_bytes == 0 && variable.size % element_bytes == 0) {
      return fmt::format("{}[{}]", variable.name, inside / element_bytes);
    }
    return fmt::format("{}+{:#x}", variable.name, inside);
  }
  for (const SharedVariable& variable : shared_variables) {
    if (variable.size == 0 && offset >= variable.offset) {
      return fmt::format("{}+{:#x}", variable.name, offset - variable.offset);
    }
  }
  return fmt::format("shared memory at {:#x}", offset);
}

std::string Kernel::name_of_barrier(uint32_t offset) const {
  const std::string name = barrier_names.name_of(*this, offset);
  return name.empty() ? name_of_shared(offset, kMbarrierBytes) : name;
}

std::string Kernel::name_of_shared_byte(uint32_t offset) const {
  const SharedVariable* holder = nullptr;
  for (const SharedVariable& variable : shared_variables) {
    if (offset < variable.offset || (variable.size != 0 && offset >= variable.offset + variable.size)) continue;
    if (holder == nullptr || variable.size != 0) holder = &variable;
  }
  if (holder == nullptr) return fmt::format("byte {:#x}", offset);
  return fmt::format("{}+{:#x}", holder->name, offset - holder->offset);
}

bool Kernel::declares_dynamic_shared() const {
  return std::any_of(shared_variables.begin(), shared_variables.end(),
                     [](const SharedVariable& variable) { return variable.size == 0; });
}

std::string Kernel::describe_gap(uint32_t offset) const {
  const SharedVariable* before = nullptr;
  for (const SharedVariable& variable : shared_variables) {
    if (variable.size == 0 || variable.offset > offset) continue;
    if (offset < variable.offset + variable.size) return {};
    if (before == nullptr || variable.offset > before->offset) before = &variable;
  }
  if (before == nullptr) return {};
  const uint32_t end = before->offset + before->size;
  return fmt::format("{} past the end of {}, which has {} bytes at {:#x} up to {:#x}",
                     offset == end ? "right" : fmt::format("{} bytes", offset - end), before->name, before->size,
                     before->offset, end);
}

}  // namespace stagecraft::emulator::machine
