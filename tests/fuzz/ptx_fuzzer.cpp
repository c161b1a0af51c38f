// Reads bytes as PTX text, places the module in device memory and makes each of its kernels executable, as the runtime
// does before a first launch. No kernel is run: a program may loop forever, which is no error of the reader.
//
// Text without `.version` is the body of a kernel, so that the corpus can hold instructions without their surroundings,
// those of the tests among them, and most of what the fuzzer generates reaches the translators.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/state/module_image.hpp"

namespace {

using namespace stagecraft::emulator;

/// One of each chip; the target of a text says which one it is for.
struct Machines {
  machine::Machine b200{machine::b200()}, h200{machine::h200()};

  Machines() {
    // The one of them that is not slow is also the one with less code.
    for (machine::Machine* machine : {&b200, &h200}) machine->announce_memory_events(true);
  }
};

std::string module_of_body(std::string_view body) {
  std::string text = R"(.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 128 .b8 dynamic[];
.shared .align 16 .b8 shared[256];
.global .align 16 .b8 global[256];
.const .align 16 .b8 constant[256];
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.func (.param .b32 result) callee(.param .b32 value) { ret; }
.visible .entry kernel(.param .u64 pointer, .param .u32 number, .param .align 64 .b8 map[128]) {
.reg .pred %p<20>; .reg .b16 %h<20>, %rs<99>; .reg .b32 %r<999>; .reg .b64 %rd<99>, %out; .reg .b128 %rq<9>;
.reg .f32 %f<999>; .reg .f64 %fd<99>; .reg .v4 .b32 %v<9>;
.local .align 16 .b8 local[64];
)";
  text += body;
  text += "\nret;\n}\n";
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Machines machines;
  std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find(".version") == std::string::npos) text = module_of_body(text);
  try {
    const auto module = std::make_shared<const ptx::Module>(ptx::parse(text));
    machine::Machine& machine = module->target == "sm_90a" ? machines.h200 : machines.b200;
    const machine::ModuleImage image(module, machine.memory());
    for (const ptx::Function& function : module->functions) {
      if (!function.is_entry || function.is_declaration) continue;
      try {
        (void)machine.translate(image, function);
      } catch (const ptx::Error&) {  // of this kernel; the others may be valid
      }
    }
  } catch (const ptx::Error&) {
  } catch (const std::bad_alloc&) {  // the variables exceed the device's memory; running out of the host's would end
                                     // the fuzzer
  }
  return 0;
}
