// Code from elsewhere: what a program loads while it runs (fat binaries, PTX text and what was linked of it, in memory
// or in files), and PTX that the user puts in place of what the program registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/runtime/model/modules.hpp"

namespace stagecraft::emulator::runtime {

class State;

/// A copy of what the program passes as an image: a fat binary, its wrapper, machine code, or PTX text. Throws
/// ApiError.
std::string copy_image(const void* image);
/// Does the same from a file.
std::string read_image(const char* path);
/// Loads and translates the image at once, so that this call reports what is wrong with it. Throws ApiError.
Module& load_module(ModuleTable& modules, machine::Machine& machine, std::string image);
/// The module of a handle (CUmodule, CUlibrary, cudaLibrary_t). Throws ApiError.
Module& require_module(const ModuleTable& modules, const void* handle);
/// A kernel of the module. Throws ApiError.
Function& find_kernel(Module& module, const char* name, machine::Machine& machine);

/// Gives the PTX of each file to the image of the program that registered the same kernels, of those that are
/// registered by now and not loaded (STAGECRAFT_PTX). Throws ApiError with a sentence about the first file that has no
/// such image, or several, or that the chip does not run; then no image is replaced.
void replace_images(const ModuleTable& modules, const std::vector<std::string>& files,
                    const machine::Architecture& architecture);

// ---- The image of a link
// -----------------------------------------------------------------------------------------------

// The image that cuLinkComplete returns and cuModuleLoadData takes: the inputs of a link, in one piece of memory.
//
// A real driver's image is machine code. This one holds the PTX of each input, which is linked again when it is loaded.

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
