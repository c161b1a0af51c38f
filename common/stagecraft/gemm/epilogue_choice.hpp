// The epilogue of a GEMM kernel: the operations that its configuration compiles in, in their order. A launch says which
// of them it uses; one that it leaves out costs a uniform branch.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/epilogue_input.hpp"
#include "stagecraft/epilogue_operations.hpp"
#include "stagecraft/gemm/activation.hpp"
#include "stagecraft/gemm/direct_access.hpp"
#include "stagecraft/gemm/types.hpp"

namespace stagecraft {

/// What a launch asks of the epilogue:
/// D = scale * activation(row_scale * column_scale * alpha * A * B + beta * C + bias).
struct EpilogueArguments {
  float alpha = 1;                                   ///< multiplies the sums
  float beta = 0;                                    ///< multiplies C
  float scale = 1;                                   ///< multiplies what is stored in D
  EpilogueVector<float> row_scales{};                ///< of D; no entries: none
  EpilogueVector<float> column_scales{};             ///< of D, or of D before a gated activation; no entries: none
  EpilogueVector<void> bias{};                       ///< for each of the same columns; no entries: none
  GemmActivation activation = GemmActivation::none;  ///< applied before the scale
  float* absolute_maximum = nullptr;                 ///< of what the activation gives; null: not asked for
  bool has_second_output = false;                    ///< what goes into the activation is stored, too
};

/// Factors in device memory, each in place of that in EpilogueArguments, unless it is null.
struct DeviceFactors {
  const float* alpha = nullptr;    ///< multiplies the sums
  const float* beta = nullptr;     ///< multiplies C
  const float* scale = nullptr;    ///< multiplies what is stored in D
  const float* a_scale = nullptr;  ///< multiplies the sums, too
  const float* b_scale = nullptr;  ///< multiplies the sums, too
};

namespace detail {

/// An operation with a vector, if the launch has one.
template <typename Operation>
struct IfGiven {
  Operation operation;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    if (operation.vector.entries != nullptr) operation(values, place);
  }
};
template <typename Operation>
IfGiven(Operation) -> IfGiven<Operation>;

/// The same with a vector for each group, where a matrix has several groups of rows.
template <typename Operation>
struct IfGivenToGroup {
  IfGiven<Operation> operation;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], RowPlace place) const {
    place.batch += place.group;
    operation(values, place);
  }
};

/// The operations for rows and columns of D, whose rows are the columns of the sums where those are its transpose.
template <bool Transposes, typename Bias>
struct OperationsOn {
  using ScaleRows = IfGiven<std::conditional_t<Transposes, MultiplyPerColumn<float>, MultiplyPerRow<float>>>;
  using ScaleColumns = IfGivenToGroup<std::conditional_t<Transposes, MultiplyPerRow<float>, MultiplyPerColumn<float>>>;
  using AddBias = IfGivenToGroup<std::conditional_t<Transposes, AddPerRow<Bias>, AddPerColumn<Bias>>>;
};

/// The activation that the launch names.
struct Activate {
  GemmActivation activation;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    switch (activation) {
      case GemmActivation::relu: return Relu{}(values, place);
      case GemmActivation::gelu: return Gelu{}(values, place);
      case GemmActivation::gelu_tanh: return GeluTanh{}(values, place);
      case GemmActivation::silu: return Silu{}(values, place);
      default: return;
    }
  }
};

/// The absolute maximum, if the launch asks for it.
class MeasureIfAsked {
 public:
  __device__ __forceinline__ explicit MeasureIfAsked(float* maximum)
      : measure_(maximum), is_asked_(maximum != nullptr) {}
  template <int Count>
  __device__ __forceinline__ void operator()(const float (&values)[Count], const RowPlace& place) {
    if (is_asked_) measure_(values, place);
  }
  __device__ __forceinline__ void end_tile() {
    if (is_asked_) measure_.end_tile();
  }

 private:
  AbsoluteMaximum measure_;
  bool is_asked_;
};

/// The second output, if the launch asks for it.
template <typename SecondOutput>
class StoreIfAsked {
 public:
  __device__ __forceinline__ StoreIfAsked(const SecondOutput& output, bool is_asked)
      : output_(output), is_asked_(is_asked) {}

  class Slice {
   public:
    __device__ __forceinline__ Slice(typename SecondOutput::Slice slice, bool is_asked)
        : slice_(slice), is_asked_(is_asked) {}
    template <int Count>
    __device__ __forceinline__ void operator()(const float (&values)[Count], const RowPlace& place) const {
      if (is_asked_) slice_(values, place);
    }
    __device__ __forceinline__ void store() const {
      if (is_asked_) slice_.store();
    }

   private:
    typename SecondOutput::Slice slice_;
    bool is_asked_;
  };
  __device__ __forceinline__ Slice slice(const SlicePlace& place) { return Slice(output_.slice(place), is_asked_); }

 private:
  SecondOutput output_;
  bool is_asked_;
};

/// beta * C, where it is compiled in.
template <typename Types, typename Parameters, typename CInput>
__device__ __forceinline__ auto add_c(const Parameters& problem, CInput& input, float beta) {
  if constexpr (Types::loads_c) {
    return AddInput<CInput>(input, beta);
  } else if constexpr (Types::config.adds_c) {
    return AddDirect<typename Types::CElement, Types::config.transposes_d>{problem.c_map, beta};
  } else {
    return Epilogue<>{};
  }
}

/// The scale factors of D where it has groups: those of contiguous ones are padded for each group.
template <typename Tiles, typename Scaling>
struct ScaleBlocksOfGroup {
  static constexpr int results_at_once = Scaling::results_at_once;
  const Tiles& tiles;
  Scaling scaling;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], RowPlace place) const {
    place.row = tiles.padded_row_of(place.group, place.row);
    scaling(values, place);
  }
};

/// The scale factors of D, where it has them.
template <typename Types, typename Parameters>
__device__ __forceinline__ auto scale_blocks(const Parameters& problem) {
  if constexpr (Types::scales_d && Types::config.groups) {
    return ScaleBlocksOfGroup<typename Types::Tiles, typename Types::DScaling>{problem.tiles, problem.d_scaling};
  } else if constexpr (Types::scales_d) {
    return problem.d_scaling;
  } else {
    return Epilogue<>{};
  }
}

/// The launch's arguments with the factors that are in device memory: a copy, if the kernel reads any.
template <typename Types, typename Parameters>
__device__ __forceinline__ decltype(auto) arguments_of(const Parameters& problem) {
  if constexpr (Types::config.device_factors) {
    EpilogueArguments arguments = problem.epilogue;
    const DeviceFactors& factors = problem.device_factors;
    if (factors.alpha != nullptr) arguments.alpha = *factors.alpha;
    if (factors.beta != nullptr) arguments.beta = *factors.beta;
    if (factors.scale != nullptr) arguments.scale = *factors.scale;
    if (factors.a_scale != nullptr) arguments.alpha *= *factors.a_scale;
    if (factors.b_scale != nullptr) arguments.alpha *= *factors.b_scale;
    return arguments;
  } else {
    return (problem.epilogue);
  }
}

/// The activation that is compiled in, or that the launch names.
template <typename Types>
__device__ __forceinline__ auto activation_of(const EpilogueArguments& arguments) {
  if constexpr (Types::config.epilogue == GemmEpilogue::gated) {
    return GatedSilu{};
  } else {
    return Activate{arguments.activation};
  }
}

}  // namespace detail

/// The calling thread's end of a ring that brings something to the epilogue; nothing where none is compiled in.
/// @param storage  the ring's member of EpilogueStorage.
template <typename Ring, typename Storage>
__device__ __forceinline__ auto make_input(typename Ring::BarrierArray& barriers, Storage& storage) {
  if constexpr (std::is_same_v<Storage, detail::Absent>) {
    return detail::Absent{};
  } else {
    return Ring{barriers, storage};
  }
}

/// Frees the slices of C that were brought for a tile, unused: another block finishes it. Called by each whole
/// converged warp of the epilogue.
template <typename Types, typename CInput>
__device__ __forceinline__ void discard_c(CInput& input) {
  if constexpr (Types::loads_c) {
#pragma unroll 1
    for (int slice = 0; slice < CInput::Slices::count; ++slice) {
      auto stage = input.consume();
      __syncwarp();
      if (lane_index() == 0) stage.arrive();
    }
  }
}

/// The epilogue of a kernel. Made by each thread of the epilogue's warps, whole converged warps.
/// @param problem   the kernel's parameter, a GemmParameters.
/// @param storage   the epilogue's shared memory.
/// @param c_input   the thread's own end of the ring that brings C; anything where none is compiled in.
template <typename Types, typename Parameters, typename CInput>
__device__ __forceinline__ auto make_epilogue(const Parameters& problem, typename Types::EpilogueStorage& storage,
                                              CInput& c_input) {
  const EpilogueArguments& arguments = detail::arguments_of<Types>(problem);
  if constexpr (Types::config.epilogue == GemmEpilogue::plain) {
    return Epilogue{Multiply{arguments.alpha}, detail::scale_blocks<Types>(problem)};
  } else {
    using SecondOutput = typename Types::SecondOutput;
    using Bias = typename Types::BiasElement;
    using On = detail::OperationsOn<Types::config.transposes_d, Bias>;
    return Epilogue{
        Multiply{arguments.alpha},
        typename On::ScaleRows{{arguments.row_scales}},
        typename On::ScaleColumns{{{arguments.column_scales}}},
        detail::add_c<Types>(problem, c_input, arguments.beta),
        typename On::AddBias{{{{static_cast<const Bias*>(arguments.bias.entries), arguments.bias.batch_stride}}}},
        detail::StoreIfAsked<SecondOutput>{SecondOutput{storage.second, problem.second_map},
                                           arguments.has_second_output},
        detail::activation_of<Types>(arguments),
        detail::MeasureIfAsked{arguments.absolute_maximum},
        Multiply{arguments.scale},
        detail::scale_blocks<Types>(problem)};
  }
}

}  // namespace stagecraft
