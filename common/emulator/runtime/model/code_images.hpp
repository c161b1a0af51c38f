// Code that a program loads while it runs: fat binaries and PTX text, in memory or in files.
#pragma once

#include <string>

#include "emulator/runtime/model/modules.hpp"

namespace stagecraft::emulator::runtime {

class State;

/// A copy of what the program passes as an image: a fat binary, its wrapper, machine code, or PTX text. Throws
/// ApiError.
std::string copy_image(const void* image);
/// Does the same from a file.
std::string read_image(const char* path);
/// Loads and translates the image at once, so that this call reports what is wrong with it. Throws ApiError.
Module& load_module(State& state, std::string image);
/// The module of a handle (CUmodule, CUlibrary, cudaLibrary_t). Throws ApiError.
Module& require_module(State& state, const void* handle);
/// A kernel of the module. Throws ApiError.
Function& find_kernel(State& state, Module& module, const char* name);

}  // namespace stagecraft::emulator::runtime
