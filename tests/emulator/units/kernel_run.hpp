// Runs a few lines of PTX as a kernel, for tests of the units through the instructions that use them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/parser.hpp"

namespace stagecraft::emulator::units {

/// The machine and what a kernel of a test can reach: `out`, 64 KiB of device memory (loaded into %rd0), and any
/// further 64-bit parameters (loaded into %rd1, %rd2, ...). In shared memory there are `tile`, 32 KiB aligned to 1024
/// bytes, and `bar`, eight mbarriers.
class KernelRun {
 public:
  static constexpr uint32_t kOutBytes = 64 << 10;

  explicit KernelRun(const machine::Architecture& architecture = machine::b200()) : machine_(architecture) {
    out_ = allocate(kOutBytes);
    std::memset(machine::DeviceMemory::host(out_), 0, kOutBytes);
  }

  machine::DeviceMemory& memory() { return machine_.memory(); }
  /// For observers that want them, such as the race check; before `run`.
  void announce_memory_events() { machine_.announce_memory_events(true); }
  uint64_t allocate(uint64_t bytes, const std::string& label = {}) {
    return *machine_.memory().allocate(bytes, machine::AllocationKind::device, label);
  }
  template <typename T>
  uint64_t upload(const std::vector<T>& values) {
    const uint64_t address = allocate(values.size() * sizeof(T));
    std::memcpy(machine::DeviceMemory::host(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  T* host(uint64_t address) {
    return reinterpret_cast<T*>(machine::DeviceMemory::host(address));
  }
  template <typename T = uint32_t>
  T* out() {
    return host<T>(out_);
  }

  struct Shape {
    uint32_t blocks = 1, threads = 1, cluster = 1;
  };

  machine::LaunchResult run(const std::string& body, const std::vector<uint64_t>& parameters, Shape shape,
                            const std::vector<machine::Observer*>& observers = {}) {
    std::string text = ".version 9.0\n.target " + machine_.architecture().target +
                       "\n.address_size 64\n.visible .entry kernel(.param .u64 out";
    for (size_t i = 0; i < parameters.size(); ++i) text += ", .param .u64 parameter" + std::to_string(i + 1);
    text +=
        ") {\n.reg .pred %p<16>;\n.reg .b16 %h<16>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\n"
        ".shared .align 1024 .b8 tile[32768];\n.shared .align 8 .b64 bar[8];\nld.param.u64 %rd0, [out];\n";
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      text += "ld.param.u64 %rd" + number + ", [parameter" + number + "];\n";
    }
    text += body + "\nret;\n}\n";
    const auto module = std::make_shared<const ptx::Module>(ptx::parse(text));
    machine::ModuleImage image(module, machine_.memory());
    const auto kernel = machine_.translate(image, *module->find_function("kernel"));

    machine::LaunchRequest request;
    request.kernel = kernel.get();
    request.grid.x = shape.blocks;
    request.block.x = shape.threads;
    request.cluster.x = shape.cluster;
    request.explicit_cluster = shape.cluster > 1;
    std::vector<uint64_t> values{out_};
    values.insert(values.end(), parameters.begin(), parameters.end());
    request.parameters.resize(values.size() * 8);
    std::memcpy(request.parameters.data(), values.data(), request.parameters.size());
    return machine_.launch(request, observers, [](std::string_view) {});
  }
  machine::LaunchResult run(const std::string& body, const std::vector<uint64_t>& parameters = {}) {
    return run(body, parameters, Shape{});
  }

  /// All that the diagnostics of a launch say, to search for words.
  static std::string report(const machine::LaunchResult& result) {
    std::string text;
    for (const machine::Diagnostic& diagnostic : result.diagnostics) {
      text += diagnostic.kind + ": " + diagnostic.message + "\n";
      for (const std::string& detail : diagnostic.details) text += "  " + detail + "\n";
      text += "  " + diagnostic.likely_cause + "\n";
    }
    return text;
  }

 private:
  machine::Machine machine_;
  uint64_t out_ = 0;
};

/// Expects a launch to end without a finding.
inline void expect_success(const machine::LaunchResult& result) {
  EXPECT_FALSE(result.fault.has_value()) << KernelRun::report(result);
  EXPECT_TRUE(result.diagnostics.empty()) << KernelRun::report(result);
}

/// Expects a launch to be stopped with this kind of fault and a report that contains `words`.
inline void expect_fault(const machine::LaunchResult& result, machine::FaultKind kind, const std::string& words) {
  ASSERT_TRUE(result.fault.has_value()) << "no fault; expected: " << words;
  EXPECT_EQ(static_cast<int>(*result.fault), static_cast<int>(kind)) << KernelRun::report(result);
  EXPECT_NE(KernelRun::report(result).find(words), std::string::npos)
      << "expected: " << words << "\nin: " << KernelRun::report(result);
}

}  // namespace stagecraft::emulator::units
