// The code of a program as the runtime knows it: modules, the kernels and variables in them, loaded when first used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/fatbin/container.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/runtime/model/errors.hpp"

namespace stagecraft::emulator::runtime {

class Module;
struct Context;

/// A kernel; its address is the handle (cudaKernel_t, cudaFunction_t, CUfunction, CUkernel).
struct Function {
  Module* module = nullptr;
  std::string name;  ///< mangled

  /// What cudaFuncSetAttribute has set.
  std::optional<uint32_t> max_dynamic_shared_bytes;
  bool non_portable_cluster = false;
  int shared_carveout = -1;
  machine::Extent3 required_cluster{0, 0, 0};
  bool has_required_cluster = false;

  std::unique_ptr<machine::Kernel> kernel;  ///< null until first used
  std::optional<ApiError> failure;          ///< why it cannot be made executable; reported once
};

/// A variable of a module. The host knows it by the address of its shadow (`__device__ int x` on the host side).
struct Variable {
  Module* module = nullptr;
  std::string name;
};

struct Symbol {
  uint64_t address = 0;
  uint64_t size = 0;
};

/// Parses PTX of a file that the chip runs. Throws ApiError.
std::shared_ptr<const ptx::Module> parse_ptx(const std::string& text, const std::string& file,
                                             const machine::Architecture& architecture);

/// The code of one translation unit, or of one cuModuleLoadData.
class Module {
 public:
  /// From a registered fat binary, which outlives the module.
  explicit Module(const void* wrapper) : wrapper_(wrapper) {}
  /// From what cuModuleLoadData was given, copied.
  explicit Module(std::string image) : image_(std::move(image)) {}

  /// Parses the PTX and places its variables, unless that is done. Throws ApiError; the reason is reported once.
  void load(machine::Machine& machine);
  /// Does the same, and makes every kernel executable.
  void load_all(machine::Machine& machine);
  /// Loads the module and makes the kernel executable. Throws ApiError.
  const machine::Kernel& kernel(Function& function, machine::Machine& machine);
  /// Loads the module and returns where the variable is. Throws ApiError (cudaErrorInvalidSymbol).
  Symbol symbol(const std::string& name, machine::Machine& machine);
  /// The handle of the kernel with this mangled name; made if need be, whether or not the module has it.
  Function& function(const std::string& name);
  /// Loads the module and says whether it has the kernel.
  bool has_kernel(const std::string& name, machine::Machine& machine);
  /// Loads the module and returns the mangled names of its kernels, in the order of the PTX.
  std::vector<std::string> kernel_names(machine::Machine& machine);
  const ptx::Module& text() const { return *text_; }
  uint64_t constant_bytes() const;

  /// The targets of the PTX in each container that the program registered; none for other modules, and for what cannot
  /// be read.
  std::vector<std::vector<fatbin::Target>> registered_targets() const;

  /// Takes this program in place of the image. To be called before the first use; nothing is known of its machine code.
  void replace_text(std::shared_ptr<const ptx::Module> text) { text_ = std::move(text); }
  bool is_registered() const { return wrapper_ != nullptr; }

  /// A `__managed__` variable: its address goes to `*host_pointer` whenever the module is loaded.
  void add_managed(void** host_pointer, std::string name) { managed_.emplace_back(host_pointer, std::move(name)); }
  /// The context whose end unloads it (cuCtxDestroy); null for a registered module.
  const Context* context = nullptr;

  /// Forgets everything that lives on the device (cudaDeviceReset), so that the next use loads it again.
  void unload();

  std::map<std::string, std::unique_ptr<Function>>& functions() { return functions_; }

 private:
  void load_image(const machine::Architecture& architecture, bool with_machine_code);

  const void* wrapper_ = nullptr;
  std::string image_;
  std::shared_ptr<const ptx::Module> text_;
  std::unique_ptr<machine::ModuleImage> placed_;
  std::map<std::string, uint32_t> registers_;                 ///< per thread, of kernels with machine code
  std::map<std::string, machine::MachineCode> machine_code_;  ///< of kernels, in timing mode
  std::optional<ApiError> failure_;
  std::vector<std::pair<void**, std::string>> managed_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
};

/// All modules of the process, and by which addresses the host names their kernels and variables.
class ModuleTable {
 public:
  Module& add(std::unique_ptr<Module> module);
  /// False when it is not in the table.
  bool remove(const Module* module);
  /// Removes all that were loaded in the context.
  void remove_of(const Context* context);
  bool contains(const Module* module) const { return modules_.contains(const_cast<Module*>(module)); }

  void add_function(Module& module, const void* host_stub, const char* name);
  void add_variable(Module& module, const void* shadow, const char* name);

  /// The kernel of a host stub or of a handle, or null.
  Function* find_function(const void* stub_or_handle) const;
  const Variable* find_variable(const void* shadow) const;
  /// A registered fat binary and the mangled names of what the host knows of it.
  struct RegisteredImage {
    Module* module = nullptr;
    std::set<std::string> kernels, variables;
  };
  /// All of them, ordered by their names. To be called before the host asks for kernels by name.
  std::vector<RegisteredImage> registered_images() const;
  /// The chip that suits what the program has registered so far (fatbin::choose_chip).
  const machine::Architecture& suitable_chip() const;
  /// Whether this attribute of a function is refused for the first time: reports say so once.
  bool refuses_first(int attribute) { return refused_attributes_.insert(attribute).second; }
  void unload_all();

 private:
  std::unordered_map<Module*, std::unique_ptr<Module>> modules_;
  std::unordered_map<const void*, Function*> stubs_;
  std::unordered_map<const void*, Variable> variables_;
  std::set<int> refused_attributes_;
};

}  // namespace stagecraft::emulator::runtime
