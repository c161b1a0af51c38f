// Runs kernels that a test gives as PTX text, on a machine of its own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "emulator/checks/deadlock.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/ptx/parser.hpp"

namespace stagecraft::emulator::machine {

class KernelTest : public ::testing::Test {
 protected:
  explicit KernelTest(const Architecture& architecture = b200()) : machine(architecture) {}

  /// Device memory for `count` elements, freed with the machine. Kept so that `read` knows its size.
  template <typename T>
  uint64_t allocate(size_t count, T fill = T{}) {
    const uint64_t address = machine.memory().allocate(count * sizeof(T), AllocationKind::device, "test").value();
    for (size_t i = 0; i < count; ++i) std::memcpy(DeviceMemory::host(address + i * sizeof(T)), &fill, sizeof(T));
    return address;
  }
  template <typename T>
  std::vector<T> read(uint64_t address, size_t count) const {
    std::vector<T> values(count);
    std::memcpy(values.data(), DeviceMemory::host(address), count * sizeof(T));
    return values;
  }

  /// Translates the first entry of a module; the header lines are added.
  Kernel& compile(const std::string& text) {
    const std::string header =
        fmt::format(".version 9.0\n.target {}\n.address_size 64\n", machine.architecture().target);
    images.push_back(
        std::make_unique<ModuleImage>(std::make_shared<ptx::Module>(ptx::parse(header + text)), machine.memory()));
    for (const ptx::Function& function : images.back()->module()->functions) {
      if (!function.is_entry) continue;
      kernels.push_back(machine.translate(*images.back(), function));
      return *kernels.back();
    }
    throw std::logic_error("no entry");
  }
  /// A kernel `k` with one parameter `out`, already in %out; `body` uses %r, %rd, %f, %p registers 0 to 19.
  Kernel& compile_body(const std::string& body, const std::string& before = {}) {
    return compile(before + R"(.visible .entry k(.param .u64 k_out) {
      .reg .b64 %out, %rd<20>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .pred %p<20>; .reg .b16 %h<20>;
      ld.param.u64 %out, [k_out];
    )" + body + "\n ret; }\n");
  }

  template <typename... Arguments>
  LaunchResult launch(const Kernel& kernel, Extent3 grid, Extent3 block, Arguments... arguments) {
    LaunchRequest request;
    request.kernel = &kernel;
    request.grid = grid;
    request.block = block;
    request.cluster = cluster;
    request.explicit_cluster = cluster.count() > 1;
    request.dynamic_shared_bytes = dynamic_shared_bytes;
    request.seed = seed;
    request.parameters.resize(kernel.parameter_bytes);
    size_t index = 0;
    (store(request.parameters, kernel.parameters.at(index++), arguments), ...);
    printed.clear();
    const auto print = [this](std::string_view text) { printed += text; };
    if (threads == 0) return machine.launch(request, {&deadlock_check}, print);
    return machine.launch(request, {}, print, {[this] { return make_checks(); }, threads});
  }
  /// The observers of a part of a grid.
  virtual std::vector<std::unique_ptr<Observer>> make_checks() const {
    std::vector<std::unique_ptr<Observer>> made;
    made.push_back(std::make_unique<checks::DeadlockCheck>());
    return made;
  }
  /// The one thing that was found wrong.
  static std::string message_of(const LaunchResult& result) {
    return result.diagnostics.size() == 1 ? result.diagnostics[0].message
                                          : fmt::format("{} diagnostics", result.diagnostics.size());
  }

  Machine machine;
  Extent3 cluster{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  uint64_t seed = 0;
  uint32_t threads = 0;  ///< not 0: the grid may run in parts, on so many threads
  std::string printed;
  checks::DeadlockCheck deadlock_check;
  std::vector<std::unique_ptr<ModuleImage>> images;
  std::vector<std::unique_ptr<Kernel>> kernels;

 private:
  template <typename T>
  static void store(std::vector<std::byte>& bytes, const ParameterLayout& layout, T value) {
    std::memcpy(bytes.data() + layout.offset, &value, std::min<size_t>(layout.size, sizeof value));
  }
};

}  // namespace stagecraft::emulator::machine
