#include "answer.cuh"

__device__ uint32_t offsets[kAnswers];
__constant__ uint32_t factor = 3;

namespace {

__device__ __noinline__ uint32_t square(uint32_t value) { return value * value; }

}  // namespace

__device__ uint32_t answer(uint32_t question) { return factor * question + offsets[question % kAnswers]; }

__device__ Operation operation() { return square; }
