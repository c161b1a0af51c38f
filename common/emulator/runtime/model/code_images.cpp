#include "emulator/runtime/model/code_images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "emulator/fatbin/bytes.hpp"
#include "emulator/fatbin/container.hpp"
#include "emulator/fatbin/locate.hpp"
#include "emulator/runtime/model/errors.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr uint64_t kHeaderBytes = 2 * sizeof(uint64_t);  // the magic number, and the size of what follows

[[noreturn]] void corrupt() {
  throw ApiError(cudaErrorInvalidKernelImage,
                 "the linked image is damaged: pass on what cuLinkComplete gave, before cuLinkDestroy");
}

void append(std::string& to, uint64_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }

/// Removes a string, which follows its length, from the front of `rest` and returns it.
std::string take_string(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof(uint64_t)) corrupt();
  const auto size = fatbin::read_at<uint64_t>(bytes, 0);
  bytes = bytes.subspan(sizeof size);
  if (size > bytes.size()) corrupt();
  std::string text(reinterpret_cast<const char*>(bytes.data()), size);
  bytes = bytes.subspan(size);
  return text;
}

}  // namespace

std::string copy_image(const void* image) {
  std::span<const std::byte> bytes = fatbin::readable_from(required(image, "image"));
  if (bytes.empty()) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the image {} cannot be read", fmt::ptr(image)));
  }
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    // A text may be shorter than the magic numbers of the other forms, none of which has a byte that is 0.
    const size_t most = std::min(sizeof(uint32_t), bytes.size());
    const uint32_t magic = strnlen(text, most) < sizeof magic ? 0 : fatbin::read_at<uint32_t>(bytes, 0);
    if (bytes.size() >= sizeof(uint64_t) && magic != 0 && fatbin::read_at<uint64_t>(bytes, 0) == kLinkedImageMagic) {
      bytes = bytes.first(linked_image_size(bytes));
    } else if (magic == fatbin::kWrapperMagic) {
      bytes = fatbin::container_of_wrapper(image);
    } else if (magic == fatbin::kContainerMagic) {
      const uint64_t size = fatbin::container_size(bytes);
      bytes = bytes.first(std::min<uint64_t>(size, bytes.size()));
    } else {
      bytes = bytes.first(strnlen(text, bytes.size()));
    }
  } catch (const fatbin::Error& error) {
    throw ApiError(cudaErrorInvalidKernelImage, error.what());
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Module& load_module(State& state, std::string image) {
  auto module = std::make_unique<Module>(std::move(image));
  module->load_all(state.machine());
  return state.modules.add(std::move(module));
}

Module& require_module(State& state, const void* handle) {
  const auto* module = static_cast<const Module*>(handle);
  if (!state.modules.contains(module)) {
    throw ApiError(cudaErrorInvalidResourceHandle, fmt::format("{} is no module", fmt::ptr(handle)));
  }
  return *const_cast<Module*>(module);
}

Function& find_kernel(State& state, Module& module, const char* name) {
  if (!module.has_kernel(required(name, "name"), state.machine())) {
    throw ApiError(cudaErrorSymbolNotFound,
                   fmt::format("the module has no kernel {}; names are mangled unless declared extern \"C\"", name));
  }
  return module.function(name);
}

std::string read_image(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ApiError(cudaErrorFileNotFound, fmt::format("{} cannot be opened", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string pack_linked_image(const std::vector<PtxText>& inputs) {
  std::string content;
  for (const PtxText& input : inputs) {
    for (const std::string* part : {&input.name, &input.text}) {
      append(content, part->size());
      content += *part;
    }
  }
  std::string image;
  append(image, kLinkedImageMagic);
  append(image, content.size());
  return image + content;
}

uint64_t linked_image_size(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) corrupt();
  const auto size = fatbin::read_at<uint64_t>(bytes, sizeof(uint64_t));
  if (size > bytes.size() - kHeaderBytes) corrupt();
  return kHeaderBytes + size;
}

std::vector<PtxText> unpack_linked_image(std::span<const std::byte> image) {
  image = image.first(linked_image_size(image)).subspan(kHeaderBytes);
  std::vector<PtxText> inputs;
  while (!image.empty()) {
    PtxText& input = inputs.emplace_back();
    input.name = take_string(image);
    input.text = take_string(image);
  }
  return inputs;
}

}  // namespace stagecraft::emulator::runtime
