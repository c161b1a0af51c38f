#include "comparison.hpp"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "emulator/checks/checks.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/ptx/parser.hpp"
#include "naive_interpreter.hpp"

namespace stagecraft::random_kernels {

namespace {

using namespace emulator;

/// Memory of the device for one run.
class DeviceWords {
 public:
  DeviceWords(machine::DeviceMemory& memory, const std::vector<uint32_t>& words)
      : memory_(memory),
        count_(words.size()),
        address_(*memory.allocate(bytes(), machine::AllocationKind::device, "test")) {
    std::memcpy(machine::DeviceMemory::host(address_), words.data(), bytes());
  }
  ~DeviceWords() { memory_.release(address_); }
  DeviceWords(const DeviceWords&) = delete;
  uint64_t address() const { return address_; }
  std::vector<uint32_t> read() const {
    std::vector<uint32_t> words(count_);
    std::memcpy(words.data(), machine::DeviceMemory::host(address_), bytes());
    return words;
  }

 private:
  size_t bytes() const { return count_ * sizeof(uint32_t); }

  machine::DeviceMemory& memory_;
  size_t count_;
  uint64_t address_;
};

naive::Buffers buffers_of(const RandomKernel& kernel) {
  std::mt19937_64 engine(kernel.seed);
  naive::Buffers made{std::vector<uint32_t>(RandomKernel::kInWords), std::vector<uint32_t>(kernel.out_words())};
  for (std::vector<uint32_t>* words : {&made.in, &made.out}) {
    for (uint32_t& word : *words) word = static_cast<uint32_t>(engine());
  }
  return made;
}

/// Runs a kernel on the emulated GPU. Returns what the checks report.
std::string emulate(machine::Machine& machine, checks::GlobalHistory& history, const RandomKernel& kernel,
                    const std::string& text, naive::Buffers& buffers) {
  const auto module = std::make_shared<const ptx::Module>(ptx::parse(text));
  machine::ModuleImage image(module, machine.memory());
  const auto translated = machine.translate(image, *module->find_function("kernel"));
  const DeviceWords in(machine.memory(), buffers.in), out(machine.memory(), buffers.out);
  history.begin({}, "kernel", true);
  history.written(machine.memory(), in.address(), buffers.in.size() * sizeof(uint32_t));
  history.written(machine.memory(), out.address(), buffers.out.size() * sizeof(uint32_t));
  machine::LaunchRequest request;
  request.kernel = translated.get();
  request.grid.x = kernel.blocks;
  request.block.x = kernel.threads;
  request.cluster.x = kernel.cluster;
  request.explicit_cluster = kernel.cluster > 1;
  request.seed = kernel.seed;  // another order of the warps each time
  request.parameters.resize(translated->parameter_bytes);
  const uint64_t values[] = {in.address(), out.address()};
  std::memcpy(request.parameters.data(), values, sizeof values);
  const machine::LaunchResult result = machine.launch(request, {}, [](std::string_view) {},
                                                      {[&] { return checks::make_checks(true, false, &history); }, 1});
  buffers.out = out.read();
  std::string found;
  for (const machine::Diagnostic& diagnostic : result.diagnostics) found += checks::render_text(diagnostic);
  if (found.empty() && result.fault) found = "the launch failed";
  return found;
}

}  // namespace

Comparison::Comparison() : machine_(machine::b200()) {
  machine_.announce_memory_events(true);
  machine_.announce_global_accesses(true);
}

std::string Comparison::run(const RandomKernel& kernel) { return run(kernel, kernel.ptx()); }

std::string Comparison::run(const RandomKernel& kernel, const std::string& emulated_text) {
  naive::Buffers expected = buffers_of(kernel), emulated = expected;
  try {
    naive::Kernel(kernel.ptx()).run({kernel.blocks, kernel.threads, kernel.cluster}, expected);
    const std::string found = emulate(machine_, history_, kernel, emulated_text, emulated);
    if (!found.empty()) return found;
  } catch (const std::exception& error) {
    return fmt::format("error: {}", error.what());
  }
  std::string differences;
  uint32_t count = 0;
  for (size_t i = 0; i < expected.out.size(); ++i) {
    if (expected.out[i] == emulated.out[i] || ++count > 8) continue;
    differences += fmt::format("out[{}] is 0x{:08x} on the emulated GPU, 0x{:08x} in the naive interpreter\n", i,
                               emulated.out[i], expected.out[i]);
  }
  if (count > 8) differences += fmt::format("and {} more words\n", count - 8);
  return differences;
}

RandomKernel shrink(RandomKernel kernel, const std::function<bool(const RandomKernel&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (RandomKernel& next : smaller_kernels(kernel)) {
      if (!fails(next)) continue;
      kernel = std::move(next);
      smaller = true;
      break;
    }
  }
  return kernel;
}

}  // namespace stagecraft::random_kernels
