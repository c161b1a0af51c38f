// The image that cuLinkComplete returns and cuModuleLoadData takes: the inputs of a link, in one piece of memory.
//
// A real driver's image is machine code. This one holds the PTX of each input, which is linked again when it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stagecraft::emulator::runtime {

/// PTX text and what to call it in messages.
struct PtxText {
  std::string name;
  std::string text;
};

/// "SCLINKED", which neither PTX nor a fat binary begins with.
inline constexpr uint64_t kLinkedImageMagic = 0x44454b4e494c4353;

std::string pack_linked_image(const std::vector<PtxText>& inputs);
/// Bytes of the image that begins here. Throws ApiError (cudaErrorInvalidKernelImage).
uint64_t linked_image_size(std::span<const std::byte> bytes);
/// Throws ApiError (cudaErrorInvalidKernelImage).
std::vector<PtxText> unpack_linked_image(std::span<const std::byte> image);

}  // namespace stagecraft::emulator::runtime
