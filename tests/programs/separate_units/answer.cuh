// The functions and variables that answer.cu has for kernels of other units.
#pragma once

#include <cstdint>

constexpr int kAnswers = 64;

extern __device__ uint32_t offsets[kAnswers];
extern __constant__ uint32_t factor;

/// Another unit's code, which no compiler inlines here.
__device__ uint32_t answer(uint32_t question);

using Operation = uint32_t (*)(uint32_t);
/// A pointer to a function that only its own unit names.
__device__ Operation operation();
