// A PTX module placed in device memory: its variables have addresses and initial values.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "emulator/ptx/module.hpp"
#include "emulator/state/device_memory.hpp"

namespace stagecraft::emulator::machine {

/// Generic "addresses" of functions: kFunctionWindow + 16 * index in Module::functions. Never dereferenced.
inline constexpr uint64_t kFunctionWindow = 0x1002'0000'0000;

class ModuleImage {
 public:
  /// Places every `.global` and `.const` variable and writes its initial value. Throws ptx::Error when an extern
  /// variable has no definition here, std::bad_alloc when device memory does not suffice.
  ModuleImage(std::shared_ptr<const ptx::Module> module, DeviceMemory& memory);
  ~ModuleImage();
  ModuleImage(const ModuleImage&) = delete;
  ModuleImage& operator=(const ModuleImage&) = delete;

  const std::shared_ptr<const ptx::Module>& module() const { return module_; }
  /// Returns the address of Module::variables[index]; 0 for a variable in shared memory.
  uint64_t address_of(uint32_t index) const { return addresses_[index]; }
  /// Returns the index in Module::variables of the variable with this name, or -1.
  int64_t find_variable(std::string_view name) const;

 private:
  void place();
  void initialise();
  void release();

  std::shared_ptr<const ptx::Module> module_;
  DeviceMemory& memory_;
  std::vector<uint64_t> addresses_;  // by index in Module::variables
  std::vector<uint64_t> owned_;      // allocations
};

}  // namespace stagecraft::emulator::machine
