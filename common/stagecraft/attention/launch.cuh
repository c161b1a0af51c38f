// The kernel and how the host starts it: for a source that compiles kernels.
#pragma once

#include "stagecraft/attention/host_launch.cuh"
#include "stagecraft/attention/kernel.cuh"
