#include "emulator/runtime/model/host_faults.hpp"

#include <fmt/format.h>
#include <ucontext.h>

#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

struct sigaction before;  // what the program had installed

const char* verb_of([[maybe_unused]] const void* context) {
#ifdef __x86_64__
  constexpr greg_t kWriteBit = 2;  // of the page fault's error code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWriteBit) != 0 ? "writes" : "reads";
#else
  return "accesses";
#endif
}

/// The fault is the program's own access, so the thread is in none of the emulated GPU's functions, or in one that
/// reads what the program has passed. Another thread may be in one, for any time: then the allocation is not named.
void explain(uint64_t address, const char* verb) {
  State& state = State::instance();
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  std::string where;
  if (lock.owns_lock() && state.machine_is_started()) {
    const machine::DeviceMemory& memory = state.machine().memory();
    if (!memory.owns(address)) return;
    where = ": " + memory.describe(address);
  } else if (address >> machine::kDeviceShift != machine::kDeviceBits) {
    return;
  }
  const std::string message = fmt::format(
      "code of the host {} {:#x}, which is memory of the device{}; copy with cudaMemcpy, or use memory of "
      "cudaMallocManaged, which both can access",
      verb, address, where);
  state.reporter.tell(fmt::format("stagecraft: {} [SIGSEGV]\n", message),
                      {{"kind", "host access"}, {"message", message}, {"address", address}});
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const bool has_address = info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR;
  if (has_address) explain(reinterpret_cast<uint64_t>(info->si_addr), verb_of(context));
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    // The access is repeated when this returns, and ends the process.
    sigaction(signal, &before, nullptr);
  }
}

}  // namespace

void explain_host_faults() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &before) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace stagecraft::emulator::runtime
