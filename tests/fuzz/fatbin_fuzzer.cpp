// Reads bytes as a fat binary, as the runtime reads one that a program registers, and as machine code inside one.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/fatbin/container.hpp"
#include "emulator/fatbin/cubin.hpp"
#include "emulator/fatbin/selection.hpp"

namespace {

using namespace stagecraft::emulator;

/// Runs `read`, which may refuse its input, but only with the error that it documents; any other ends the fuzzer.
template <typename Read>
void may_refuse(Read&& read) {
  try {
    read();
  } catch (const fatbin::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  may_refuse([&] { (void)fatbin::read_register_counts(std::string_view(reinterpret_cast<const char*>(data), size)); });
  may_refuse([&] { (void)fatbin::read_machine_code(std::string_view(reinterpret_cast<const char*>(data), size)); });
  may_refuse([&] {
    const std::vector<fatbin::Entry> entries = fatbin::read_container(bytes);
    for (const fatbin::Entry& entry : entries) {
      may_refuse([&] {
        const std::string payload = fatbin::read_payload(entry);
        if (entry.kind == fatbin::EntryKind::elf) {
          (void)fatbin::read_register_counts(payload);
          (void)fatbin::read_machine_code(payload);
        }
      });
    }
    for (const machine::Architecture* chip : {&machine::b200(), &machine::h200()}) {
      may_refuse([&] {
        (void)fatbin::choose_elf(entries, *chip);
        (void)fatbin::choose_ptx(entries, *chip);
      });
    }
  });
  return 0;
}
