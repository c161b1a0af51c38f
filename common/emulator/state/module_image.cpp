#include "emulator/state/module_image.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <string>
#include <unordered_map>

#include "emulator/ptx/diagnostics.hpp"

namespace stagecraft::emulator::machine {
namespace {

bool lives_in_device_memory(const ptx::Variable& variable) {
  return variable.space == ptx::Space::global || variable.space == ptx::Space::constant;
}

/// Returns the index of each name's definition, or of its declaration where there is no definition.
std::unordered_map<std::string_view, uint32_t> definitions_of(const ptx::Module& module) {
  std::unordered_map<std::string_view, uint32_t> result;
  for (uint32_t index = 0; index < module.variables.size(); ++index) {
    const auto [entry, inserted] = result.emplace(module.variables[index].name, index);
    if (!inserted && module.variables[entry->second].is_extern) entry->second = index;
  }
  return result;
}

}  // namespace

ModuleImage::ModuleImage(std::shared_ptr<const ptx::Module> module, DeviceMemory& memory)
    : module_(std::move(module)), memory_(memory), addresses_(module_->variables.size(), 0) {
  try {
    place();
    initialise();
  } catch (...) {
    release();
    throw;
  }
}

ModuleImage::~ModuleImage() { release(); }

void ModuleImage::release() {
  for (const uint64_t address : owned_) memory_.release(address);
  owned_.clear();
}

void ModuleImage::place() {
  const auto definitions = definitions_of(*module_);
  for (uint32_t index = 0; index < module_->variables.size(); ++index) {
    const ptx::Variable& variable = module_->variables[index];
    if (!lives_in_device_memory(variable) || variable.is_extern) continue;
    if (definitions.at(variable.name) != index) continue;  // a weak or common variable that is defined twice
    const std::optional<uint64_t> address =
        memory_.allocate(variable.size, variable.is_managed ? AllocationKind::managed_variable : AllocationKind::module,
                         fmt::format("variable `{}`", variable.name), Fill::zero, variable.alignment);
    if (!address) throw std::bad_alloc();
    owned_.push_back(*address);
    addresses_[index] = *address;
  }
  for (uint32_t index = 0; index < module_->variables.size(); ++index) {
    const ptx::Variable& variable = module_->variables[index];
    if (!lives_in_device_memory(variable) || addresses_[index] != 0) continue;
    const uint32_t definition = definitions.at(variable.name);
    if (addresses_[definition] == 0) {
      throw ptx::Error(
          fmt::format("variable `{}` is declared extern, and nothing that it was linked with defines it{}{}",
                      variable.name, module_->left_out.empty() ? "" : "; not linked was: ", module_->left_out),
          variable.position, "a definition in the same module, or in one that is linked with it");
    }
    addresses_[index] = addresses_[definition];
  }
}

void ModuleImage::initialise() {
  const auto definitions = definitions_of(*module_);
  std::unordered_map<std::string_view, uint32_t> functions;
  for (uint32_t index = 0; index < module_->functions.size(); ++index) {
    functions.emplace(module_->functions[index].name, index);
  }
  for (uint32_t index = 0; index < module_->variables.size(); ++index) {
    const ptx::Variable& variable = module_->variables[index];
    if (!lives_in_device_memory(variable) || variable.is_extern || definitions.at(variable.name) != index) continue;
    std::byte* const bytes = DeviceMemory::host(addresses_[index]);
    if (!variable.image.empty()) {
      std::memcpy(bytes, variable.image.data(), std::min<uint64_t>(variable.image.size(), variable.size));
    }
    for (const ptx::Relocation& relocation : variable.relocations) {
      uint64_t value = 0;
      if (const auto named = definitions.find(relocation.symbol); named != definitions.end()) {
        value = addresses_[named->second];
        if (value == 0) {
          throw ptx::Error(fmt::format("the initial value of `{}` is the address of `{}`, which is not in global or "
                                       "constant memory",
                                       variable.name, relocation.symbol),
                           variable.position, "addresses of .global and .const variables and of functions");
        }
      } else if (const auto function = functions.find(relocation.symbol); function != functions.end()) {
        value = kFunctionWindow + 16 * uint64_t{function->second};
      } else {
        throw ptx::Error(fmt::format("the initial value of `{}` names `{}`, which this module does not have",
                                     variable.name, relocation.symbol),
                         variable.position);
      }
      value += static_cast<uint64_t>(relocation.addend);
      const uint64_t size = std::min<uint64_t>(relocation.size, sizeof value);
      if (relocation.offset > variable.size || size > variable.size - relocation.offset) {
        throw ptx::Error(fmt::format("the initial value of `{}` is longer than the variable", variable.name),
                         variable.position, fmt::format("{} bytes", variable.size));
      }
      std::memcpy(bytes + relocation.offset, &value, size);
    }
    if (variable.space == ptx::Space::constant) memory_.make_read_only(addresses_[index]);
  }
}

int64_t ModuleImage::find_variable(std::string_view name) const {
  int64_t declaration = -1;
  for (size_t index = 0; index < module_->variables.size(); ++index) {
    if (module_->variables[index].name != name) continue;
    if (!module_->variables[index].is_extern) return static_cast<int64_t>(index);
    declaration = static_cast<int64_t>(index);
  }
  return declaration;
}

}  // namespace stagecraft::emulator::machine
