// Which kernels are compiled into the library: one list for each source of kernels. Every option of GemmConfig occurs
// with every value that a row of the lesson's table names; what is not in these lists, a program can compile itself.
#pragma once

#include <array>
#include <cstddef>

#include "stagecraft/gemm/config.hpp"

namespace stagecraft::shipped {

template <size_t Size>
using Configs = std::array<GemmConfig, Size>;

/// Lists one after the other.
template <size_t... Sizes>
constexpr auto joined(const Configs<Sizes>&... lists) {
  Configs<(Sizes + ...)> all;
  size_t at = 0;
  const auto append = [&](const auto& list) {
    for (const GemmConfig& config : list) all[at++] = config;
  };
  (append(lists), ...);
  return all;
}

/// Each configuration of a list with each of the changes.
template <size_t Size, typename... Changes>
constexpr auto with_each(const Configs<Size>& list, Changes... changes) {
  const auto changed = [&](auto change) {
    Configs<Size> copy = list;
    for (GemmConfig& config : copy) change(config);
    return copy;
  };
  return joined(changed(changes)...);
}

/// One configuration with each of the changes.
template <typename... Changes>
constexpr auto variants(GemmConfig config, Changes... changes) {
  return with_each(Configs<1>{config}, changes...);
}

// ---- Changes --------------------------------------------------------------------------------------------------------

constexpr auto as_it_is = [](GemmConfig&) {};

constexpr auto nn = [](GemmConfig& config) { config.a_major = Major::mn; };
constexpr auto tt = [](GemmConfig& config) { config.b_major = Major::mn; };
constexpr auto nt = [](GemmConfig& config) { config.a_major = config.b_major = Major::mn; };

template <int M, int N, int Accumulators = 2>
constexpr auto tile = [](GemmConfig& config) {
  config.tile_m = M;
  config.tile_n = N;
  config.accumulators = Accumulators;
};
template <int Rows, int Columns>
constexpr auto cluster = [](GemmConfig& config) {
  config.cluster_m = Rows;
  config.cluster_n = Columns;
};
/// And where no such cluster fits, one of so many blocks.
template <int Rows, int Columns>
constexpr auto or_smaller = [](GemmConfig& config) {
  config.fallback_m = Rows;
  config.fallback_n = Columns;
};
/// Pairs of blocks, in a cluster of so many blocks.
template <int M, int N, int Rows = 2, int Columns = 1, int Accumulators = 2>
constexpr auto pair = [](GemmConfig& config) {
  tile<M, N, Accumulators>(config);
  cluster<Rows, Columns>(config);
  config.cta_group = 2;
};
template <int KGroup>
constexpr auto k_group = [](GemmConfig& config) { config.k_group = KGroup; };

constexpr auto control = [](GemmConfig& config) { config.launch_control = true; };
constexpr auto divided = [](GemmConfig& config) { config.divides_k = true; };
constexpr auto divided_by_control = [](GemmConfig& config) { config.launch_control = config.divides_k = true; };

constexpr auto full = [](GemmConfig& config) { config.epilogue = GemmEpilogue::full; };
constexpr auto gated = [](GemmConfig& config) { config.epilogue = GemmEpilogue::gated; };
/// C of the type that it has where nobody says.
constexpr auto with_c = [](GemmConfig& config) {
  config.adds_c = true;
  config.c = companion_of(config.d);
};
constexpr auto full_with_c = [](GemmConfig& config) { full(config), with_c(config); };
constexpr auto gated_with_c = [](GemmConfig& config) { gated(config), with_c(config); };

constexpr auto groups = [](GemmConfig& config) { config.groups = true; };
constexpr auto swapped = [](GemmConfig& config) { config.transposes_d = true; };

template <DataType D>
constexpr auto result = [](GemmConfig& config) { config.d = D; };

constexpr DataType bf16 = DataType::bf16, f16 = DataType::f16, f32 = DataType::f32, tf32 = DataType::tf32,
                   e4m3 = DataType::e4m3, e5m2 = DataType::e5m2, mxfp8 = DataType::mxfp8, mxfp4 = DataType::mxfp4,
                   nvfp4 = DataType::nvfp4, fp8_blockwise = DataType::fp8_blockwise;

// ---- Lists ----------------------------------------------------------------------------------------------------------

/// Operands of one type.
constexpr GemmConfig of(DataType type, DataType d) { return {.a = type, .b = type, .d = d}; }

inline constexpr GemmConfig kOfBf16 = of(bf16, bf16), kOfF16 = of(f16, f16), kOfTf32 = of(tf32, f32),
                            kOfE4m3 = of(e4m3, bf16);

/// Tiles and clusters.
inline constexpr auto kBf16Tiles =
    joined(variants(kOfBf16, as_it_is, nn, tt, nt, result<f32>, result<e4m3>, tile<128, 16, 4>, tile<128, 64>,
                    tile<128, 256>, tile<64, 64, 3>, tile<64, 32, 1>, k_group<2>),
           variants(kOfBf16, cluster<1, 2>, cluster<2, 2>, cluster<4, 1>, cluster<4, 4>),
           variants(kOfBf16, pair<256, 128>, pair<128, 64>, pair<256, 256>, pair<256, 128, 4, 2>),
           with_each(variants(kOfBf16, pair<256, 128>), nt), with_each(variants(kOfBf16, pair<256, 256>), k_group<2>),
           // Groups of rows, and few rows.
           with_each(variants(kOfBf16, as_it_is, pair<256, 128>), groups),
           with_each(variants(kOfBf16, tile<128, 32>, tile<64, 16>), swapped));

/// Groups of rows, and few rows, with schedules and epilogues.
inline constexpr auto kBf16Groups =
    joined(with_each(with_each(variants(kOfBf16, as_it_is, pair<256, 128>), groups), control, full_with_c),
           with_each(variants(kOfBf16, groups), divided, gated, divided_by_control),
           with_each(with_each(variants(kOfBf16, pair<256, 128>), groups), gated_with_c),
           with_each(with_each(variants(kOfBf16, result<e4m3>), groups), full),
           with_each(with_each(variants(kOfBf16, tile<128, 32>, result<f32>), swapped), full, full_with_c));

/// Schedules.
inline constexpr auto kBf16Schedules = joined(
    with_each(variants(kOfBf16, as_it_is, pair<256, 128>), control, divided, divided_by_control),
    with_each(variants(kOfBf16, pair<256, 128, 4, 2>), control, divided_by_control),
    with_each(variants(kOfBf16, cluster<2, 2>), control), with_each(variants(kOfBf16, cluster<2, 2>), or_smaller<1, 1>),
    with_each(with_each(variants(kOfBf16, pair<256, 128, 4, 2>), or_smaller<2, 1>), as_it_is, control,
              divided_by_control));

/// Epilogues.
inline constexpr auto kBf16Epilogues =
    joined(with_each(variants(kOfBf16, as_it_is, pair<256, 128>), full, full_with_c, gated),
           variants(kOfBf16, gated_with_c), with_each(variants(kOfBf16, pair<128, 64>), full_with_c),
           with_each(variants(kOfBf16, result<f32>), full_with_c), with_each(variants(kOfBf16, result<e4m3>), full),
           with_each(with_each(variants(kOfBf16, pair<256, 128, 4, 2>), control, divided_by_control), full_with_c));

inline constexpr auto kF16AndTf32 =
    joined(variants(kOfF16, as_it_is, nt, result<f32>, pair<256, 128>, control, full_with_c),
           variants(kOfTf32, as_it_is, tt, nt, pair<256, 128>, full_with_c));

inline constexpr auto kFp8 =
    joined(variants(kOfE4m3, as_it_is, nt, result<f32>, result<f16>, result<e4m3>, pair<256, 128>, control),
           with_each(variants(kOfE4m3, result<e4m3>), full, full_with_c), variants(kOfE4m3, groups),
           // f32 scales: each k-tile has an accumulator.
           with_each(variants(of(fp8_blockwise, bf16), tile<128, 128, 4>), as_it_is, full, groups),
           with_each(variants(of(fp8_blockwise, bf16), pair<256, 128, 2, 1, 4>), control),
           variants(of(e5m2, bf16), as_it_is, tt),
           variants(GemmConfig{.a = e4m3, .b = e5m2, .d = bf16}, as_it_is, result<f32>),
           variants(GemmConfig{.a = e5m2, .b = e4m3, .d = f32}, as_it_is));

inline constexpr auto kBlockScaled =
    joined(variants(of(mxfp8, bf16), as_it_is, result<f32>, pair<256, 128>, cluster<2, 2>, full),
           variants(of(mxfp4, bf16), as_it_is, k_group<2>),
           variants(of(nvfp4, bf16), as_it_is, result<f32>, pair<256, 128>, control),
           // Tiles that begin inside of an atom of scale factors.
           variants(of(mxfp8, bf16), tile<128, 64>, pair<256, 192>), variants(of(nvfp4, bf16), tile<128, 192, 1>),
           // D with scale factors.
           variants(of(mxfp8, mxfp8), full), with_each(variants(of(mxfp8, mxfp8), pair<256, 128>), gated),
           variants(of(bf16, mxfp4), as_it_is), variants(of(nvfp4, nvfp4), as_it_is),
           // Groups of rows.
           variants(of(mxfp8, bf16), groups), with_each(variants(of(mxfp8, bf16), groups), full),
           with_each(with_each(variants(of(nvfp4, bf16), pair<256, 128>), groups), as_it_is, gated),
           with_each(with_each(variants(of(mxfp8, mxfp8), pair<256, 128>), groups), gated));

/// All of them.
inline constexpr auto kAll =
    joined(kBf16Tiles, kBf16Schedules, kBf16Epilogues, kBf16Groups, kF16AndTf32, kFp8, kBlockScaled);

}  // namespace stagecraft::shipped
