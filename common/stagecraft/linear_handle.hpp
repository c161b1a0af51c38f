// What makes a handle linear: an obligation that every path must fulfil exactly once, or the program does not build.
//
// C++ has no linear types, but an optimising compiler can prove what a linear type system would. The obligation's
// destructor calls a function that is defined nowhere, if the obligation is still open. Where every path closes it, the
// optimiser sees that the call is never made and removes it. Where one path does not, the call stays, and ptxas stops
// with "Unresolved extern function" and the function's name, which is the message; the build then finds the source line
// (common/tools/compile_cuda.py). The finished program holds no trace of any of this.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#if !defined(STAGECRAFT_CHECK_HANDLES_AT_RUN_TIME) && defined(__CUDACC_DEBUG__)
#define STAGECRAFT_CHECK_HANDLES_AT_RUN_TIME 1
#elif !defined(STAGECRAFT_CHECK_HANDLES_AT_RUN_TIME)
/// 1 to check obligations when the program runs. Without an optimiser (nvcc -G) there is no proof, and it is 1; define
/// it so in an optimised build as well for a handle that travels through a function that is not inlined.
#define STAGECRAFT_CHECK_HANDLES_AT_RUN_TIME 0
#endif

namespace stagecraft {

/// A line of the program, for messages.
struct SourceLine {
  const char* file;  ///< as the compiler was given it
  int line;          ///< from 1

  /// The line of the call; as a default argument, that of the call with the default argument.
  __host__ __device__ static constexpr SourceLine here(const char* file = __builtin_FILE(),
                                                       int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// What must be done exactly once before the object goes out of scope: the last member of a linear handle.
///
/// It moves with the handle, so that the moves of a handle can be defaulted: what was moved from owes nothing more and
/// must not be used again. Assigning to an obligation that is still open drops it.
/// @tparam Handle  names the handle and its messages:
///     `static constexpr const char* name()`, the handle's name;
///     `static void is_dropped(int line)`, `static void is_used_after_exit(int line)`: each calls a function that is
///     declared `extern "C" __device__` and defined nowhere, called NAME_is_dropped_without_release or
///     NAME_is_used_after_release: the build knows these endings. They get the line of the acquisition.
template <typename Handle>
class Obligation {
 public:
  /// @param acquired_at  where the handle was acquired.
  __device__ __forceinline__ explicit Obligation(SourceLine acquired_at) : acquired_at_(acquired_at) {}

  /// Takes over what `other` owes.
  __device__ __forceinline__ Obligation(Obligation&& other) { take_over(other); }

  /// The same; what this one owed before is dropped.
  __device__ __forceinline__ Obligation& operator=(Obligation&& other) {
    if (is_open_) report_drop();
    take_over(other);
    return *this;
  }

  //! [destructor]
  __device__ __forceinline__ ~Obligation() {
    if (is_open_) report_drop();
  }
  //! [destructor]

  /// The handle is being used: an error, unless the obligation is still open.
  __device__ __forceinline__ void use() const {
    if (!is_open_) report_use();
  }

  /// The handle's exit: nothing is owed any more.
  __device__ __forceinline__ void fulfil() {
    use();
    is_open_ = false;
  }

 private:
  __device__ __forceinline__ void take_over(Obligation& other) {
    other.use();
    acquired_at_ = other.acquired_at_;
    is_open_ = true;
    other.is_open_ = false;
  }

#if STAGECRAFT_CHECK_HANDLES_AT_RUN_TIME
  __device__ void report_drop() const { stop_kernel("dropped without release()"); }
  __device__ void report_use() const { stop_kernel("used after its release or move"); }
  __device__ void stop_kernel(const char* fault) const {
    printf("stagecraft: thread %u of block %u: the %s acquired at %s:%d is %s\n", threadIdx.x, blockIdx.x,
           Handle::name(), acquired_at_.file, acquired_at_.line, fault);
    __trap();
  }
#else
  __device__ __forceinline__ void report_drop() const { Handle::is_dropped(acquired_at_.line); }
  __device__ __forceinline__ void report_use() const { Handle::is_used_after_exit(acquired_at_.line); }
#endif

  SourceLine acquired_at_;
  bool is_open_ = true;
};

/// A stage in a thread's hands, of a pipeline whose position moves when it is released: what a linear handle holds.
///
/// It moves with the handle, and each use checks that the handle still has it.
/// @tparam Messages  names the handle, as for Obligation.
template <typename Pipeline, typename Messages>
class StageInHand {
 public:
  /// @param index        the stage, 0 to one less than there are.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ StageInHand(Pipeline& pipeline, uint32_t index, SourceLine acquired_at)
      : pipeline_(&pipeline), index_(index), obligation_(acquired_at) {}

  /// The pipeline that it is a stage of.
  __device__ __forceinline__ Pipeline& pipeline() const {
    obligation_.use();
    return *pipeline_;
  }

  /// Which stage.
  __device__ __forceinline__ uint32_t index() const {
    obligation_.use();
    return index_;
  }

  /// The handle's exit: nothing is owed any more. Returns the pipeline, whose position the caller steps.
  __device__ __forceinline__ Pipeline& let_go() {
    obligation_.fulfil();
    return *pipeline_;
  }

 private:
  Pipeline* pipeline_;
  uint32_t index_;
  Obligation<Messages> obligation_;
};

/// False, but only once a template is instantiated: for a `static_assert` that explains why not to call a function.
template <typename...>
inline constexpr bool never_allowed = false;

}  // namespace stagecraft
