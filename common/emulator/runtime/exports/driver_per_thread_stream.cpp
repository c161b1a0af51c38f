// The functions of the driver API for programs with a default stream per thread (per_thread_stream.hpp).
#include "emulator/runtime/exports/per_thread_stream.hpp"
#include "emulator/runtime/model/cuda_headers.hpp"

// cuda.h declares a later form only.
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* graph, const CUgraphNode** dependencies, size_t* count);

#define STAGECRAFT_DEFINED(name)
#define STAGECRAFT_STUB(name)
#define STAGECRAFT_ALIAS(name, target)
#define STAGECRAFT_PER_THREAD(name, target) STAGECRAFT_DEFINE_PER_THREAD(name, target);
#include "emulator/runtime/exports/driver_exports.inc"
