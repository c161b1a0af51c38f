// The kernel and how the host starts it: for a source that compiles kernels.
#pragma once

#include "stagecraft/gemm/host_launch.cuh"
#include "stagecraft/gemm/kernel.cuh"
