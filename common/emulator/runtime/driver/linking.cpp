// The driver API: linking of several inputs into one image (cuLink*).
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/fatbin/bytes.hpp"
#include "emulator/fatbin/container.hpp"
#include "emulator/fatbin/selection.hpp"
#include "emulator/instructions/function_calls.hpp"
#include "emulator/ptx/demangling.hpp"
#include "emulator/ptx/linker.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/runtime/driver/jit_log.hpp"
#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/code_images.hpp"

using namespace stagecraft::emulator::runtime;
namespace fatbin = stagecraft::emulator::fatbin;
namespace machine = stagecraft::emulator::machine;
namespace ptx = stagecraft::emulator::ptx;

struct CUlinkState_st {
  JitLog log;
  std::vector<PtxText> inputs;
  std::string image;
};

namespace stagecraft::emulator::runtime {
namespace {

/// Owner of the links that are not destroyed yet; the lock of State protects it.
std::map<CUlinkState, std::unique_ptr<CUlinkState_st>>& links() {
  static auto* const made = new std::map<CUlinkState, std::unique_ptr<CUlinkState_st>>;
  return *made;
}

CUlinkState_st& require_link(CUlinkState link) {
  const auto found = links().find(required(link, "state"));
  if (found == links().end()) {
    throw ApiError(
        cudaErrorInvalidResourceHandle,
        fmt::format("{} is no link: cuLinkCreate did not make it, or cuLinkDestroy has destroyed it", fmt::ptr(link)));
  }
  return *found->second;
}

std::string ptx_of_container(State& state, std::span<const std::byte> container) {
  return fatbin::read_payload(fatbin::choose_ptx(fatbin::read_container(container), state.architecture()));
}

/// Adds the PTX of the fat binaries in an object file or a library. Fat binaries without PTX for the chip, such as
/// those of libcudadevrt.a, add nothing; a symbol that only they define is reported where it is used.
void add_objects(State& state, CUlinkState_st& link, std::span<const std::byte> file, const std::string& name) {
  constexpr size_t kAlignment = 2;  // of the members of an archive
  size_t found = 0;
  for (size_t offset = 0; fatbin::has_range(file, offset, sizeof(uint64_t)); offset += kAlignment) {
    if (fatbin::read_at<uint32_t>(file, offset) != fatbin::kContainerMagic) continue;
    try {
      link.inputs.push_back(
          {fmt::format("{}, object {}", name, found + 1), ptx_of_container(state, file.subspan(offset))});
    } catch (const fatbin::Error& error) {
      if (error.kind() == fatbin::ErrorKind::corrupt) continue;  // these bytes only look like the beginning of one
    }
    ++found;
  }
  if (found == 0) {
    throw ApiError(cudaErrorInvalidKernelImage, fmt::format("{} holds no fat binary: compile it with nvcc -dc", name));
  }
}

/// The inputs so far as one module. Contradictions are CUDA_ERROR_INVALID_SOURCE, as on an H200.
ptx::Module link_inputs(const CUlinkState_st& link) {
  std::vector<ptx::LinkUnit> units;
  for (const PtxText& input : link.inputs) units.push_back({input.name, ptx::parse(input.text)});
  try {
    return ptx::link(std::move(units));
  } catch (const ptx::Error& error) {
    throw ApiError(cudaErrorInvalidSource, error.what());
  }
}

void add_input(State& state, CUlinkState_st& link, CUjitInputType type, std::string input, const char* given_name) {
  const std::string name = given_name == nullptr ? fmt::format("input {}", link.inputs.size() + 1) : given_name;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(input));
  try {
    switch (type) {
      case CU_JIT_INPUT_PTX:
        input.resize(input.find_last_not_of('\0') + 1);
        ptx::parse(input);
        link.inputs.push_back({name, std::move(input)});
        break;
      case CU_JIT_INPUT_FATBINARY: link.inputs.push_back({name, ptx_of_container(state, bytes)}); break;
      case CU_JIT_INPUT_OBJECT:
      case CU_JIT_INPUT_LIBRARY: add_objects(state, link, bytes, name); break;
      default:
        throw ApiError(
            cudaErrorNoKernelImageForDevice,
            fmt::format("{} is of type {}, and the emulated GPU links PTX (1), and fat binaries (2), objects "
                        "(3) and libraries (4) that hold PTX",
                        name, static_cast<int>(type)));
    }
  } catch (const fatbin::Error& error) {
    throw ApiError(
        error.kind() == fatbin::ErrorKind::corrupt ? cudaErrorInvalidKernelImage : cudaErrorNoKernelImageForDevice,
        fmt::format("{}: {}", name, error.what()));
  } catch (const ptx::Error& error) {
    throw ApiError(cudaErrorInvalidPtx, fmt::format("{}: {}", name, error.what()));
  }
  if (link.inputs.size() > 1) link_inputs(link);  // contradictions are refused at once
}

void refuse_undefined(const ptx::Module& module) {
  const auto refuse = [](std::string_view kind, const std::string& name) {
    throw ApiError(cudaErrorInvalidSource, fmt::format("{} `{}` is declared, and no input of the link defines it{}",
                                                       kind, ptx::short_function_name(name), ptx::name_in_ptx(name)));
  };
  for (const ptx::Variable& variable : module.variables) {
    if (variable.is_extern && variable.space != ptx::Space::shared) refuse("variable", variable.name);
  }
  for (const ptx::Function& function : module.functions) {
    if (function.is_declaration && machine::find_builtin(function.name) == nullptr) refuse("function", function.name);
  }
}

void complete(CUlinkState_st& link) {
  if (link.inputs.empty()) throw ApiError(cudaErrorInvalidValue, "nothing was added to the link");
  refuse_undefined(link_inputs(link));
  link.image = pack_linked_image(link.inputs);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

extern "C" {

CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* link) {
  return run_driver_call("cuLinkCreate", Needs::device, [&](State&) {
    required(link, "stateOut");
    auto made = std::make_unique<CUlinkState_st>(CUlinkState_st{JitLog(count, options, values), {}, {}});
    *link = made.get();
    links().emplace(*link, std::move(made));
  });
}

CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void* data, size_t size, const char* name, unsigned,
                          CUjit_option*, void**) {
  return run_driver_call("cuLinkAddData", Needs::device, [&](State& state) {
    CUlinkState_st& found = require_link(link);
    with_log(found.log, [&] {
      add_input(state, found, type, {static_cast<const char*>(required(data, "data")), size}, name);
    });
  });
}

CUresult cuLinkAddFile_v2(CUlinkState link, CUjitInputType type, const char* path, unsigned, CUjit_option*, void**) {
  return run_driver_call("cuLinkAddFile", Needs::device, [&](State& state) {
    CUlinkState_st& found = require_link(link);
    with_log(found.log, [&] { add_input(state, found, type, read_image(required(path, "path")), path); });
  });
}

CUresult cuLinkComplete(CUlinkState link, void** image, size_t* size) {
  return run_driver_call("cuLinkComplete", Needs::device, [&](State&) {
    CUlinkState_st& found = require_link(link);
    with_log(found.log, [&] { complete(found); });
    *required(image, "cubinOut") = found.image.data();
    if (size != nullptr) *size = found.image.size();
  });
}

CUresult cuLinkDestroy(CUlinkState link) {
  return run_driver_call("cuLinkDestroy", Needs::device, [&](State&) {
    require_link(link);
    links().erase(link);
  });
}

}  // extern "C"
