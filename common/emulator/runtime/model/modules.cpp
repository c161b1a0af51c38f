#include "emulator/runtime/model/modules.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <new>
#include <tuple>

#include "emulator/fatbin/bytes.hpp"
#include "emulator/fatbin/container.hpp"
#include "emulator/fatbin/cubin.hpp"
#include "emulator/fatbin/locate.hpp"
#include "emulator/fatbin/selection.hpp"
#include "emulator/ptx/demangling.hpp"
#include "emulator/ptx/linker.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/runtime/model/code_images.hpp"
#include "emulator/runtime/model/progress_line.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// PTX ISA versions are refused from this major one on: the driver of CUDA 13 reads all of 9.
constexpr uint32_t kFirstUnknownPtxMajor = 10;

struct Image {
  std::vector<PtxText> texts;  ///< several are linked
  std::string left_out;        ///< objects without PTX that the chip runs, and why
  std::string elf;             ///< machine code for the chip itself; empty where there is none
};

void read_machine_code(Image& image, const std::vector<fatbin::Entry>& entries,
                       const machine::Architecture& architecture) {
  if (const fatbin::Entry* elf = fatbin::choose_elf(entries, architecture)) image.elf = fatbin::read_payload(*elf);
}

Image image_of_container(std::span<const std::byte> container, const machine::Architecture& architecture) {
  const std::vector<fatbin::Entry> entries = fatbin::read_container(container);
  Image image;
  image.texts.push_back({"the program", fatbin::read_payload(fatbin::choose_ptx(entries, architecture))});
  read_machine_code(image, entries, architecture);
  return image;
}

/// The image that a program registers. A program built with nvcc -rdc=true lists the objects that it was linked from,
/// each with its own PTX; its own container holds at most the machine code that nvlink made of them. The driver links
/// their PTX where it has no machine code (JIT), and so does this function. One of the objects is that of the device
/// runtime, which has PTX for later chips only.
Image image_of_wrapper(const void* wrapper, const machine::Architecture& architecture) {
  const auto containers = fatbin::linked_containers(wrapper);
  if (containers.empty()) return image_of_container(fatbin::container_of_wrapper(wrapper), architecture);
  Image image;
  std::optional<fatbin::Error> failure;
  for (size_t index = 0; index < containers.size(); ++index) {
    try {
      const std::vector<fatbin::Entry> entries = fatbin::read_container(containers[index]);
      const fatbin::Entry& ptx = fatbin::choose_ptx(entries, architecture);
      image.texts.push_back({fmt::format("object {}", index + 1), fatbin::read_payload(ptx)});
    } catch (const fatbin::Error& error) {
      if (error.kind() != fatbin::ErrorKind::no_suitable_image) throw;
      if (!failure) failure = error;
      image.left_out += fmt::format("{}object {}: {}", image.left_out.empty() ? "" : "; ", index + 1, error.what());
    }
  }
  if (image.texts.empty()) throw *failure;
  read_machine_code(image, fatbin::read_container(fatbin::container_of_wrapper(wrapper)), architecture);
  return image;
}

/// The image of data for cuModuleLoadData: a container, the result of a link, or PTX text.
Image image_of_data(const std::string& data, const machine::Architecture& architecture) {
  const std::span bytes = std::as_bytes(std::span(data));
  if (bytes.size() >= sizeof(uint32_t) && fatbin::read_at<uint32_t>(bytes, 0) == fatbin::kContainerMagic) {
    return image_of_container(bytes, architecture);
  }
  if (bytes.size() >= sizeof(uint64_t) && fatbin::read_at<uint64_t>(bytes, 0) == kLinkedImageMagic) {
    return {unpack_linked_image(bytes), {}, {}};
  }
  if (data.starts_with("\x7f"
                       "ELF")) {
    throw ApiError(cudaErrorNoKernelImageForDevice,
                   "the image is machine code, and the emulated GPU runs PTX: load the PTX, or a fat binary with it; "
                   "with NVRTC, compile with --gpu-architecture=compute_... in place of sm_..., and load what "
                   "nvrtcGetPTX gives; with nvJitLink, link with -lto -ptx, and load what nvJitLinkGetLinkedPtx gives; "
                   "with numba, load what numba.cuda.compile_ptx gives");
  }
  if (data.find(".version") == std::string::npos) {
    throw ApiError(cudaErrorInvalidKernelImage,
                   "the image is neither a fat binary nor PTX text, which begins with .version");
  }
  return {{{"the PTX", data}}, {}, {}};
}

cudaError_t error_of(const fatbin::Error& error) {
  return error.kind() == fatbin::ErrorKind::corrupt ? cudaErrorInvalidKernelImage : cudaErrorNoKernelImageForDevice;
}

void check_target(const ptx::Module& text, const machine::Architecture& architecture) {
  if (text.version_major >= kFirstUnknownPtxMajor) {
    throw ApiError(cudaErrorUnsupportedPtxVersion,
                   fmt::format("the PTX is version {}.{}, and those before {}.0 are known: build with nvcc of CUDA 13",
                               text.version_major, text.version_minor, kFirstUnknownPtxMajor));
  }
  const auto target = fatbin::parse_target(text.target);
  if (!target || !fatbin::runs_on(*target, architecture)) {
    const std::string other = target ? fatbin::advise_other_chip(std::span(&*target, 1), architecture) : "";
    throw ApiError(cudaErrorNoKernelImageForDevice,
                   fmt::format("the PTX is for {}, but the {} runs {}{}{}", text.target, architecture.name,
                               architecture.target, other.empty() ? "" : "; ", other));
  }
  if (text.address_size != 64) {
    throw ApiError(cudaErrorInvalidPtx, fmt::format("the PTX has .address_size {}; legal is 64", text.address_size));
  }
}

/// Runs `body` and turns exceptions of reading and translating into the error that the driver returns. Messages about
/// PTX begin with `subject` and end with `postscript`.
template <typename Body>
auto with_cuda_errors(std::string_view subject, std::string_view postscript, Body&& body) {
  try {
    return body();
  } catch (const fatbin::Error& error) {
    throw ApiError(error_of(error), error.what());
  } catch (const ptx::Error& error) {
    throw ApiError(cudaErrorInvalidPtx, fmt::format("{}{}{}", subject, error.what(), postscript));
  } catch (const std::bad_alloc&) {
    throw ApiError(cudaErrorMemoryAllocation,
                   "the variables of the program do not fit in device memory: make its __device__ arrays smaller");
  }
}

std::filesystem::file_time_type time_of(const char* file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  return error ? std::filesystem::file_time_type::min() : time;
}

/// When the program or library was linked that something belongs to.
std::filesystem::file_time_type time_of_holder(const void* address) {
  Dl_info holder{};
  return dladdr(address, &holder) == 0 || holder.dli_fname == nullptr ? std::filesystem::file_time_type::min()
                                                                      : time_of(holder.dli_fname);
}

}  // namespace

std::shared_ptr<const ptx::Module> parse_ptx(const std::string& text, const std::string& file,
                                             const machine::Architecture& architecture) {
  return with_cuda_errors("", "", [&] {
    auto module = std::make_shared<ptx::Module>(ptx::parse(text));
    module->written = time_of(file.c_str());
    check_target(*module, architecture);
    return module;
  });
}

std::vector<std::vector<fatbin::Target>> Module::registered_targets() const {
  std::vector<std::vector<fatbin::Target>> targets;
  if (wrapper_ == nullptr) return targets;
  try {
    auto containers = fatbin::linked_containers(wrapper_);
    if (containers.empty()) containers.push_back(fatbin::container_of_wrapper(wrapper_));
    for (const auto container : containers) {
      targets.push_back(fatbin::ptx_targets(fatbin::read_container(container)));
    }
  } catch (const fatbin::Error&) {  // the first use of the module reports it
  }
  return targets;
}

void Module::load_image(const machine::Architecture& architecture, bool with_machine_code) {
  Image image = wrapper_ != nullptr ? image_of_wrapper(wrapper_, architecture) : image_of_data(image_, architecture);
  uint64_t bytes = 0;
  for (const PtxText& input : image.texts) bytes += input.text.size();
  if (State::instance().settings().progress) tell_reading(bytes);
  std::vector<ptx::LinkUnit> units;
  for (PtxText& input : image.texts) {
    units.push_back({std::move(input.name), ptx::parse(input.text)});
    check_target(units.back().module, architecture);
  }
  auto text =
      std::make_shared<ptx::Module>(units.size() == 1 ? std::move(units.front().module) : ptx::link(std::move(units)));
  text->left_out = std::move(image.left_out);
  if (wrapper_ != nullptr) text->written = time_of_holder(wrapper_);
  if (!image.elf.empty()) {
    registers_ = fatbin::read_register_counts(image.elf);
    // Its lines are those of one text.
    if (with_machine_code && image.texts.size() == 1) machine_code_ = fatbin::read_machine_code(image.elf);
  }
  text_ = std::move(text);
}

void Module::load(machine::Machine& machine) {
  if (placed_) return;
  if (failure_) throw_once(failure_);
  try {
    with_cuda_errors("PTX: ", "", [&] {
      if (!text_) load_image(machine.architecture(), machine.announces_instructions());
      placed_ = std::make_unique<machine::ModuleImage>(text_, machine.memory());
    });
  } catch (const ApiError& error) {
    failure_ = error;
    throw_once(failure_);
  }
  for (const auto& [host_pointer, name] : managed_) {
    if (const int64_t index = placed_->find_variable(name); index >= 0) {
      *host_pointer = reinterpret_cast<void*>(placed_->address_of(static_cast<uint32_t>(index)));
    }
  }
}

void Module::load_all(machine::Machine& machine) {
  load(machine);
  for (const ptx::Function& entry : text_->functions) {
    if (entry.is_entry && !entry.is_declaration) kernel(function(entry.name), machine);
  }
}

const machine::Kernel& Module::kernel(Function& function, machine::Machine& machine) {
  if (function.kernel) return *function.kernel;
  load(machine);
  if (function.failure) throw_once(function.failure);
  try {
    const std::string name = ptx::short_function_name(function.name), postscript = ptx::name_in_ptx(function.name);
    with_cuda_errors(fmt::format("kernel {}: ", name), postscript, [&] {
      const ptx::Function* entry = text_->find_function(function.name);
      if (entry == nullptr || !entry->is_entry || entry->is_declaration) {
        throw ApiError(cudaErrorInvalidDeviceFunction,
                       fmt::format("the program's PTX for {} has no kernel {}; was it compiled away for this "
                                   "architecture (#if __CUDA_ARCH__)?{}",
                                   text_->target, name, postscript));
      }
      const auto registers = registers_.find(function.name);
      function.kernel = machine.translate(*placed_, *entry, registers == registers_.end() ? 0 : registers->second);
      if (const auto code = machine_code_.find(function.name); code != machine_code_.end()) {
        function.kernel->machine_code = code->second;
      }
    });
  } catch (const ApiError& error) {
    function.failure = error;
    throw_once(function.failure);
  }
  return *function.kernel;
}

Symbol Module::symbol(const std::string& name, machine::Machine& machine) {
  load(machine);
  const int64_t index = placed_->find_variable(name);
  const uint64_t address = index < 0 ? 0 : placed_->address_of(static_cast<uint32_t>(index));
  if (address == 0) {
    throw ApiError(cudaErrorInvalidSymbol,
                   fmt::format("the program's PTX for {} has no __device__, __constant__ or __managed__ variable {}{}",
                               text_->target, ptx::short_function_name(name), ptx::name_in_ptx(name)));
  }
  return {address, text_->variables[static_cast<size_t>(index)].size};
}

Function& Module::function(const std::string& name) {
  std::unique_ptr<Function>& function = functions_[name];
  if (!function) {
    function = std::make_unique<Function>();
    function->module = this;
    function->name = name;
  }
  return *function;
}

bool Module::has_kernel(const std::string& name, machine::Machine& machine) {
  load(machine);
  const ptx::Function* entry = text_->find_function(name);
  return entry != nullptr && entry->is_entry && !entry->is_declaration;
}

std::vector<std::string> Module::kernel_names(machine::Machine& machine) {
  load(machine);
  std::vector<std::string> names;
  for (const ptx::Function& entry : text_->functions) {
    if (entry.is_entry && !entry.is_declaration) names.push_back(entry.name);
  }
  return names;
}

uint64_t Module::constant_bytes() const {
  uint64_t bytes = 0;
  if (text_) {
    for (const ptx::Variable& variable : text_->variables) {
      if (variable.space == ptx::Space::constant) bytes += variable.size;
    }
  }
  return bytes;
}

void Module::unload() {
  for (auto& [name, function] : functions_) {
    function->kernel.reset();
    function->max_dynamic_shared_bytes.reset();
    function->non_portable_cluster = false;
  }
  placed_.reset();
}

Module& ModuleTable::add(std::unique_ptr<Module> module) {
  Module* key = module.get();
  return *modules_.emplace(key, std::move(module)).first->second;
}

bool ModuleTable::remove(const Module* module) {
  if (!contains(module)) return false;
  std::erase_if(stubs_, [&](const auto& entry) { return entry.second->module == module; });
  std::erase_if(variables_, [&](const auto& entry) { return entry.second.module == module; });
  modules_.erase(const_cast<Module*>(module));
  return true;
}

void ModuleTable::remove_of(const Context* context) {
  std::vector<const Module*> ended;
  for (const auto& [key, module] : modules_) {
    if (module->context == context) ended.push_back(key);
  }
  for (const Module* module : ended) remove(module);
}

void ModuleTable::add_function(Module& module, const void* host_stub, const char* name) {
  stubs_[host_stub] = &module.function(name);
}

void ModuleTable::add_variable(Module& module, const void* shadow, const char* name) {
  variables_[shadow] = {&module, name};
}

Function* ModuleTable::find_function(const void* stub_or_handle) const {
  if (stub_or_handle == nullptr) return nullptr;
  if (const auto found = stubs_.find(stub_or_handle); found != stubs_.end()) return found->second;
  for (const auto& [key, module] : modules_) {
    for (const auto& [name, function] : module->functions()) {
      if (function.get() == stub_or_handle) return function.get();
    }
  }
  return nullptr;
}

const Variable* ModuleTable::find_variable(const void* shadow) const {
  const auto found = variables_.find(shadow);
  return found == variables_.end() ? nullptr : &found->second;
}

std::vector<ModuleTable::RegisteredImage> ModuleTable::registered_images() const {
  std::vector<RegisteredImage> images;
  for (const auto& [key, module] : modules_) {
    if (!module->is_registered()) continue;
    RegisteredImage& image = images.emplace_back();
    image.module = key;
    for (const auto& [name, function] : module->functions()) image.kernels.insert(name);
    for (const auto& [shadow, variable] : variables_) {
      if (variable.module == key) image.variables.insert(variable.name);
    }
  }
  std::erase_if(images, [](const RegisteredImage& image) { return image.kernels.empty() && image.variables.empty(); });
  std::sort(images.begin(), images.end(), [](const RegisteredImage& one, const RegisteredImage& other) {
    return std::tie(one.kernels, one.variables) < std::tie(other.kernels, other.variables);
  });
  return images;
}

const machine::Architecture& ModuleTable::suitable_chip() const {
  std::vector<std::vector<fatbin::Target>> images;
  for (const auto& [key, module] : modules_) {
    for (std::vector<fatbin::Target>& targets : module->registered_targets()) images.push_back(std::move(targets));
  }
  return fatbin::choose_chip(images);
}

void ModuleTable::unload_all() {
  for (const auto& [key, module] : modules_) module->unload();
}

}  // namespace stagecraft::emulator::runtime
