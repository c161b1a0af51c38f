// Makes a pair of handlers on 32 lanes from a function on one lane. This header is for the vector files only.
//
// Everything is in an unnamed namespace: these files are compiled for several processors, and the linker must never
// choose the AVX-512 copy of a shared inline function for the baseline. For the same reason there are no std::
// templates here.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "emulator/host/isa_level.hpp"
#include "emulator/host/rounding_scope.hpp"
#include "emulator/instructions/alu/handlers.hpp"
#include "emulator/instructions/alu/levels.hpp"
#include "emulator/state/grid.hpp"

// A destination is either exactly a source or does not overlap it, so no iteration depends on another.
#if defined(__clang__)
#define STAGECRAFT_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define STAGECRAFT_LANES _Pragma("GCC ivdep")
#endif
#define STAGECRAFT_INLINE [[gnu::always_inline]] inline

namespace stagecraft::emulator::machine::alu {
namespace {

/// An instruction decides the type as which a register is read, so the compiler may assume no type of its memory.
template <typename T>
struct Aliased {
  typedef T __attribute__((may_alias)) type;
};

template <typename T>
STAGECRAFT_INLINE typename Aliased<T>::type* lanes(std::byte* registers, RegisterOffset offset) {
  return reinterpret_cast<typename Aliased<T>::type*>(registers + offset);
}

template <typename To, typename From>
STAGECRAFT_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <size_t Bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};

/// Last argument of a lane function that also needs `Op::immediate`.
struct Immediate {
  uint64_t value;
};

template <typename T>
inline constexpr bool kIsExtra = false;
template <>
inline constexpr bool kIsExtra<Immediate> = true;

/// Writes one lane if `keep` is zero; keeps its old value if `keep` is all ones.
template <typename R>
STAGECRAFT_INLINE void blend(typename Aliased<R>::type& destination, R result,
                             typename UnsignedOf<sizeof(R)>::type select) {
  using U = typename UnsignedOf<sizeof(R)>::type;
  const R old = destination;
  destination = bits_as<R>(static_cast<U>((bits_as<U>(result) & select) | (bits_as<U>(old) & static_cast<U>(~select))));
}

/// Bit i of a mask. It is a table because not every level can shift each lane by its own amount.
inline constexpr uint32_t kLaneBit[32] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

/// `select[i]` is all ones where the mask has the lane of element i, with `PerLane` elements to a lane.
template <typename U, int PerLane>
STAGECRAFT_INLINE void spread(LaneMask mask, typename Aliased<U>::type* select) {
  if constexpr (PerLane == 1) {
    for (int i = 0; i < 32; ++i) select[i] = static_cast<U>((mask & kLaneBit[i]) != 0 ? ~U{0} : U{0});
  } else {
    // A pair is one element of twice the size.
    using Pair = typename UnsignedOf<2 * sizeof(U)>::type;
    spread<Pair, 1>(mask, reinterpret_cast<typename Aliased<Pair>::type*>(select));
  }
}

/// The loops over F::apply, chosen by its signature.
template <typename F, int PerLane, bool Full, typename Signature>
struct Loop;

template <typename F, int PerLane, bool Full, typename R, typename A>
struct Loop<F, PerLane, Full, R (*)(A)> {
  STAGECRAFT_INLINE static void run(std::byte* registers, const Op& op, LaneMask mask) {
    auto* d = lanes<R>(registers, op.destination);
    const auto* a = lanes<A>(registers, op.a);
    if constexpr (Full) {
      STAGECRAFT_LANES
      for (int i = 0; i < 32 * PerLane; ++i) d[i] = F::apply(a[i]);
    } else {
      using U = typename UnsignedOf<sizeof(R)>::type;
      alignas(64) U select[32 * PerLane];
      spread<U, PerLane>(mask, select);
      STAGECRAFT_LANES
      for (int i = 0; i < 32 * PerLane; ++i) blend<R>(d[i], F::apply(a[i]), select[i]);
    }
  }
};

template <typename F, int PerLane, bool Full, typename R, typename A, typename B>
struct Loop<F, PerLane, Full, R (*)(A, B)> {
  STAGECRAFT_INLINE static void run(std::byte* registers, const Op& op, LaneMask mask) {
    auto* d = lanes<R>(registers, op.destination);
    const auto* a = lanes<A>(registers, op.a);
    if constexpr (kIsExtra<B>) {
      const B extra{op.immediate};
      if constexpr (Full) {
        STAGECRAFT_LANES
        for (int i = 0; i < 32 * PerLane; ++i) d[i] = F::apply(a[i], extra);
      } else {
        using U = typename UnsignedOf<sizeof(R)>::type;
        alignas(64) U select[32 * PerLane];
        spread<U, PerLane>(mask, select);
        STAGECRAFT_LANES
        for (int i = 0; i < 32 * PerLane; ++i) blend<R>(d[i], F::apply(a[i], extra), select[i]);
      }
    } else {
      const auto* b = lanes<B>(registers, op.b);
      if constexpr (Full) {
        STAGECRAFT_LANES
        for (int i = 0; i < 32 * PerLane; ++i) d[i] = F::apply(a[i], b[i]);
      } else {
        using U = typename UnsignedOf<sizeof(R)>::type;
        alignas(64) U select[32 * PerLane];
        spread<U, PerLane>(mask, select);
        STAGECRAFT_LANES
        for (int i = 0; i < 32 * PerLane; ++i) blend<R>(d[i], F::apply(a[i], b[i]), select[i]);
      }
    }
  }
};

template <typename F, int PerLane, bool Full, typename R, typename A, typename B, typename C>
struct Loop<F, PerLane, Full, R (*)(A, B, C)> {
  STAGECRAFT_INLINE static void run(std::byte* registers, const Op& op, LaneMask mask) {
    auto* d = lanes<R>(registers, op.destination);
    const auto* a = lanes<A>(registers, op.a);
    const auto* b = lanes<B>(registers, op.b);
    using U = typename UnsignedOf<sizeof(R)>::type;
    alignas(64) U select[32 * PerLane];
    if constexpr (!Full) spread<U, PerLane>(mask, select);
    if constexpr (kIsExtra<C>) {
      const C extra{op.immediate};
      STAGECRAFT_LANES
      for (int i = 0; i < 32 * PerLane; ++i) {
        if constexpr (Full) {
          d[i] = F::apply(a[i], b[i], extra);
        } else {
          blend<R>(d[i], F::apply(a[i], b[i], extra), select[i]);
        }
      }
    } else {
      const auto* c = lanes<C>(registers, op.c);
      STAGECRAFT_LANES
      for (int i = 0; i < 32 * PerLane; ++i) {
        if constexpr (Full) {
          d[i] = F::apply(a[i], b[i], c[i]);
        } else {
          blend<R>(d[i], F::apply(a[i], b[i], c[i]), select[i]);
        }
      }
    }
  }
};

template <typename F, int PerLane, bool Full, typename R, typename A, typename B, typename C, typename D>
struct Loop<F, PerLane, Full, R (*)(A, B, C, D)> {
  STAGECRAFT_INLINE static void run(std::byte* registers, const Op& op, LaneMask mask) {
    auto* d = lanes<R>(registers, op.destination);
    const auto* a = lanes<A>(registers, op.a);
    const auto* b = lanes<B>(registers, op.b);
    const auto* c = lanes<C>(registers, op.c);
    using U = typename UnsignedOf<sizeof(R)>::type;
    alignas(64) U select[32 * PerLane];
    if constexpr (!Full) spread<U, PerLane>(mask, select);
    if constexpr (kIsExtra<D>) {
      const D extra{op.immediate};
      STAGECRAFT_LANES
      for (int i = 0; i < 32 * PerLane; ++i) {
        if constexpr (Full) {
          d[i] = F::apply(a[i], b[i], c[i], extra);
        } else {
          blend<R>(d[i], F::apply(a[i], b[i], c[i], extra), select[i]);
        }
      }
    } else {
      const auto* e = lanes<D>(registers, static_cast<RegisterOffset>(op.immediate));
      STAGECRAFT_LANES
      for (int i = 0; i < 32 * PerLane; ++i) {
        if constexpr (Full) {
          d[i] = F::apply(a[i], b[i], c[i], e[i]);
        } else {
          blend<R>(d[i], F::apply(a[i], b[i], c[i], e[i]), select[i]);
        }
      }
    }
  }
};

template <typename F, int PerLane, bool Full>
Outcome run_lanes(Fragment& fragment, const Op& op, LaneMask mask) {
  Loop<F, PerLane, Full, decltype(&F::apply)>::run(fragment.registers, op, mask);
  return Outcome::next;
}

/// Returns handlers that apply `F::apply` to every element; `PerLane` is 2 for packed pairs.
template <typename F, int PerLane = 1>
Handlers lane_handlers() {
  return {run_lanes<F, PerLane, true>, run_lanes<F, PerLane, false>};
}

template <typename F, int PerLane, bool Full>
[[gnu::noinline]] Outcome run_lanes_directed(Fragment& fragment, const Op& op, LaneMask mask) {
  const RoundingScope scope(op.immediate);
  Loop<F, PerLane, Full, decltype(&F::apply)>::run(fragment.registers, op, mask);
  return Outcome::next;
}

/// Does the same as `lane_handlers`, but the low bits of `Op::immediate` are the rounding mode.
template <typename F, int PerLane = 1>
Handlers directed_handlers() {
  return {run_lanes_directed<F, PerLane, true>, run_lanes_directed<F, PerLane, false>};
}

/// Returns the handlers of an operation whose handler is the same for every mask.
inline Handlers both(Handler handler) { return {handler, handler}; }

/// Makes a mask with one bit per lane from one byte per lane (0 or 255).
STAGECRAFT_INLINE LaneMask gather_mask(const uint8_t* truth) {
#if STAGECRAFT_ISA_LEVEL >= 3
  return static_cast<LaneMask>(_mm256_movemask_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(truth))));
#elif defined(__x86_64__)
  const auto low = static_cast<uint32_t>(_mm_movemask_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(truth))));
  const auto high =
      static_cast<uint32_t>(_mm_movemask_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(truth + 16))));
  return low | high << 16;
#else
  LaneMask mask = 0;
  for (int i = 0; i < 32; ++i) mask |= static_cast<LaneMask>(truth[i] & 1u) << i;
  return mask;
#endif
}

/// Replaces the bits of a predicate that are in the mask.
STAGECRAFT_INLINE void write_predicate(std::byte* registers, RegisterOffset offset, LaneMask value, LaneMask mask) {
  auto* destination = lanes<LaneMask>(registers, offset);
  *destination = (*destination & ~mask) | (value & mask);
}

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
