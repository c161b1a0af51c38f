// Which configuration a product gets: what was measured for it, or else what is expected to be the fastest.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/cuda_error.hpp"
#include "stagecraft/hopper_gemm/twin.hpp"

namespace stagecraft {

namespace {

/// A line of the table.
struct Tuned {
  std::string_view device;
  OperandType type;
  int64_t m, n, k;
  TwinChoice choice;
};
constexpr Tuned kTuned[] = {
#include "stagecraft/hopper_gemm/tuned.inc"
};

/// Bytes of a row of A or B.
int64_t k_bytes(const MatrixProduct& p) { return p.k * (p.type == OperandType::e4m3 ? 1 : 2); }

}  // namespace

std::optional<TwinChoice> find_tuned(std::string_view device, OperandType type, int64_t m, int64_t n, int64_t k) {
  const auto found = std::find_if(std::begin(kTuned), std::end(kTuned), [&](const Tuned& line) {
    return line.device == device && line.type == type && line.m == m && line.n == n && line.k == k;
  });
  return found == std::end(kTuned) ? std::nullopt : std::optional(found->choice);
}

TwinChoice choose_twin(const MatrixProduct& p) {
  cudaDeviceProp device;
  harness::check(cudaGetDeviceProperties(&device, 0), "ask the device for its properties");
  if (const auto tuned = find_tuned(device.name, p.type, p.m, p.n, p.k)) return *tuned;
  return {.kind = choose_twin(p.m, p.n, k_bytes(p) / 128, device.multiProcessorCount)};
}

bool takes(TwinKind kind, const MatrixProduct& p) { return p.n % 8 == 0 || stores_by_threads(kind); }

const char* name_of(TwinKind kind) {
  switch (kind) {
    case TwinKind::standard: return "standard";
    case TwinKind::halved: return "halved";
    case TwinKind::large: return "large";
    case TwinKind::tall_144: return "tall_144";
    case TwinKind::tall_160: return "tall_160";
    case TwinKind::tall_176: return "tall_176";
    case TwinKind::tall_200: return "tall_200";
    case TwinKind::thin: return "thin";
    case TwinKind::thin_rows: return "thin_rows";
    case TwinKind::thin_112: return "thin_112";
    case TwinKind::thin_144: return "thin_144";
    case TwinKind::thin_144_columns: return "thin_144_columns";
    case TwinKind::thin_160: return "thin_160";
    case TwinKind::quad_112: return "quad_112";
    case TwinKind::quad_176: return "quad_176";
    case TwinKind::wide_176: return "wide_176";
    case TwinKind::wide_192: return "wide_192";
    case TwinKind::wide_208: return "wide_208";
    case TwinKind::wide_208_rows: return "wide_208_rows";
    case TwinKind::wide_224: return "wide_224";
    case TwinKind::wide_224_rows: return "wide_224_rows";
    case TwinKind::wide_256: return "wide_256";
    case TwinKind::flat: return "flat";
    case TwinKind::low: return "low";
    case TwinKind::low_64: return "low_64";
    case TwinKind::low_alone: return "low_alone";
    case TwinKind::split: return "split";
    case TwinKind::split_64: return "split_64";
    case TwinKind::split_80: return "split_80";
    case TwinKind::split_tall_64: return "split_tall_64";
    case TwinKind::split_tall_80: return "split_tall_80";
    case TwinKind::split_high_80: return "split_high_80";
    case TwinKind::split_high_96: return "split_high_96";
    case TwinKind::swapped_16: return "swapped_16";
    case TwinKind::swapped_32: return "swapped_32";
    case TwinKind::swapped_56: return "swapped_56";
    case TwinKind::swapped_72: return "swapped_72";
    case TwinKind::swapped_104: return "swapped_104";
    case TwinKind::swapped_136: return "swapped_136";
    case TwinKind::swapped_128: return "swapped_128";
    case TwinKind::swapped_96: return "swapped_96";
    case TwinKind::swapped_112: return "swapped_112";
    case TwinKind::swapped_112_narrow: return "swapped_112_narrow";
    case TwinKind::swapped_160: return "swapped_160";
    case TwinKind::swapped_192: return "swapped_192";
    case TwinKind::swapped_208: return "swapped_208";
    case TwinKind::by_threads: return "by_threads";
    case TwinKind::thin_by_threads: return "thin_by_threads";
    case TwinKind::flat_by_threads: return "flat_by_threads";
  }
  return "";
}

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// For few rows: the narrowest tiles that hold them, if they keep the chip busy for one round; nothing for other
/// products. Measured on an H200: README.md.
std::optional<TwinKind> choose_for_few_rows(int64_t m, int64_t n, int multiprocessors) {
  const auto one_round = [&](int64_t rows, int64_t columns, int64_t most) {
    return ceil_div(m, rows) * ceil_div(n, columns) <= most;
  };
  const int64_t clusters = multiprocessors / 2;  // of two blocks
  if (m <= 16) return TwinKind::swapped_16;
  if (m <= 32) return TwinKind::swapped_32;
  if (m <= 64) {
    return one_round(64, 64, clusters)    ? TwinKind::split_64
           : one_round(64, 80, clusters)  ? TwinKind::split_80
           : one_round(64, 128, clusters) ? TwinKind::split
                                          : TwinKind::low_alone;
  }
  if (m <= 128 && one_round(128, 64, clusters / 4)) return TwinKind::low_64;
  if (m <= 128 && one_round(128, 64, clusters)) return TwinKind::split_tall_64;
  if (m <= 128 && one_round(128, 80, clusters)) return TwinKind::split_tall_80;
  if (m <= 96) return one_round(128, 64, multiprocessors) ? TwinKind::flat : TwinKind::swapped_96;
  if (m <= 128) {
    return one_round(128, 128, clusters) ? TwinKind::low : TwinKind::thin;
  }
  if (m > 256 || m <= 160 || !one_round(256, 80, clusters)) {
    // Where two or more of these tiles hold the rows with less waste than tiles of 128 rows do.
    constexpr std::pair<TwinKind, int64_t> kPairs[] = {
        {TwinKind::swapped_72, 144}, {TwinKind::swapped_104, 208}, {TwinKind::swapped_136, 272}};
    for (const auto& [kind, rows] : kPairs) {
      const int64_t padded = ceil_div(m, rows) * rows;
      if (m <= 640 && m * 100 >= padded * 93 && padded < ceil_div(m, 128) * 128 && one_round(rows, 128, clusters)) {
        return kind;
      }
    }
  }
  if (m <= 160) return TwinKind::swapped_160;
  if (m <= 256 && !one_round(256, 64, clusters)) {
    if (one_round(256, 80, clusters)) return TwinKind::split_high_80;
    if (one_round(256, 96, clusters)) return TwinKind::split_high_96;
  }
  if (m <= 384 && (m <= 192 || m > 256) && one_round(192, 64, multiprocessors)) return TwinKind::swapped_192;
  if (m <= 320 && (m <= 160 || m > 256) && one_round(160, 128, multiprocessors)) return TwinKind::swapped_160;
  if (m <= 256 && one_round(128, 128, clusters)) return TwinKind::low;
  if (m <= 512 && one_round(256, 128, clusters) && !one_round(256, 128, clusters / 2)) return TwinKind::thin_rows;
  if (m <= 512 && one_round(128, 64, clusters)) return TwinKind::split_tall_64;
  return std::nullopt;
}

/// For products of one round: the narrowest tiles for which that is enough; nothing for other products. Measured on an
/// H200: README.md.
std::optional<TwinKind> choose_for_one_round(int64_t m, int64_t n, int multiprocessors) {
  struct Width {
    TwinKind kind;
    int64_t rows, columns;  // of a cluster's tile
  };
  constexpr Width kWidths[] = {
      {TwinKind::thin, 128, 256},          {TwinKind::thin_144, 256, 144}, {TwinKind::thin_144_columns, 128, 288},
      {TwinKind::thin_160, 128, 320},      {TwinKind::wide_176, 128, 352}, {TwinKind::wide_192, 128, 384},
      {TwinKind::wide_208_rows, 256, 208}, {TwinKind::wide_208, 128, 416}, {TwinKind::wide_224_rows, 256, 224},
      {TwinKind::wide_224, 128, 448},      {TwinKind::wide_256, 128, 512}, {TwinKind::tall_144, 256, 288},
      {TwinKind::tall_160, 256, 320},      {TwinKind::tall_176, 256, 352}};
  const auto clusters = [&](int64_t rows, int64_t columns) { return ceil_div(m, rows) * ceil_div(n, columns); };
  // Processors are grouped so that an H200 with 132 has room for 30 clusters of four.
  if (clusters(256, 224) <= multiprocessors * 30 / 132) return TwinKind::quad_112;
  for (const Width& width : kWidths) {
    if (clusters(width.rows, width.columns) <= multiprocessors / 2) return width.kind;
  }
  return std::nullopt;
}

}  // namespace

TwinKind choose_twin(int64_t m, int64_t n, int64_t k_tiles, int multiprocessors) {
  if (n % 8 != 0) {
    const auto tiles = [m, n](int64_t columns) { return ceil_div(m, 128) * ceil_div(n, columns); };
    return tiles(64) <= multiprocessors    ? TwinKind::flat_by_threads
           : tiles(128) <= multiprocessors ? TwinKind::thin_by_threads
                                           : TwinKind::by_threads;
  }
  if (const auto chosen = choose_for_few_rows(m, n, multiprocessors)) return *chosen;
  if (ceil_div(m, 128) * ceil_div(n, 64) <= multiprocessors) return TwinKind::flat;
  if (const auto chosen = choose_for_one_round(m, n, multiprocessors)) return *chosen;
  const int64_t clusters = multiprocessors / 2;  // of two blocks

  // Half rounds that it takes: tiles of the last one are halved if they fit.
  const auto half_rounds = [&](int64_t tiles, bool halves) {
    const int64_t rest = tiles % (2 * clusters);
    return tiles / (2 * clusters) * 2 + (rest == 0 ? 0 : halves && rest <= clusters ? 1 : 2);
  };
  const int64_t standard_tiles = 2 * ceil_div(m, 2 * 128) * ceil_div(n, 256);
  const int64_t whole = half_rounds(standard_tiles, false), halved = half_rounds(standard_tiles, true);
  struct Tall {
    TwinKind kind;
    int64_t columns;
    double time;  // for the same work, in units of that of standard tiles
  };
  constexpr Tall kTall[] = {{TwinKind::tall_200, 200, 0.981},
                            {TwinKind::large, 192, 0.975},
                            {TwinKind::tall_176, 176, 0.98},
                            {TwinKind::tall_160, 160, 0.985},
                            {TwinKind::tall_144, 144, 0.99}};
  TwinKind best = halved < whole ? TwinKind::halved : TwinKind::standard;
  double least = static_cast<double>(halved * 128 * 256 * k_tiles);
  for (const Tall& tall : kTall) {
    const int64_t rounds = half_rounds(ceil_div(m, 256) * ceil_div(n, tall.columns), true);
    const double time =
        static_cast<double>(rounds * 256 * tall.columns) * (static_cast<double>(k_tiles) + 1.5) * tall.time;
    if (time < least) best = tall.kind, least = time;
  }
  return best;
}

}  // namespace stagecraft
