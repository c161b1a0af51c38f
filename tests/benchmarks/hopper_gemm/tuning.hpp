// Which configuration of the Hopper twin is the fastest for a product, found by timing them on the chip at hand.
#pragma once

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "measurement.hpp"
#include "stagecraft/hopper_gemm/twin.hpp"

namespace stagecraft {

/// How much is measured.
struct TuningOptions {
  std::vector<int> bands = {4, 6, 8, 11, 16};  ///< rows of clusters in a band that are tried beside the usual number
  int repeats = 9;                             ///< bursts of each finalist
  int launches = 12;                           ///< products in each
  int pause_ms = 20;                           ///< rest before each
  int finalists = 4;                           ///< configurations that are measured again, beside the usual one
};

/// What was found for a shape.
struct Found {
  TwinChoice choice;                                   ///< the fastest, or the usual one where that is hardly slower
  double rate;                                         ///< TFLOP/s
  double usual_rate;                                   ///< that of what the rule expects to be the fastest
  std::vector<std::pair<std::string, double>> others;  ///< the finalists with their rates, the usual one first
};

/// Less than this is within the spread of two measurements.
inline constexpr double kWorthIt = 1.005;

/// Bands of other heights are measured for configurations that come this close to the fastest.
inline constexpr double kWorthBands = 0.93;

/// What the rule says, without the table.
inline TwinChoice usual_choice(const MatrixProduct& p) {
  int multiprocessors = 0;
  harness::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                 "ask the device for its multiprocessors");
  return {.kind = choose_twin(p.m, p.n, p.k * (p.type == OperandType::e4m3 ? 1 : 2) / 128, multiprocessors)};
}

/// Measures all configurations once, good ones with bands of other heights too, the best of them and the usual one
/// again and again in turn.
/// @param products  of one shape, with matrices of their own, so that none is in the cache from the time before.
/// @returns nothing where no configuration takes the shape, or one of the results is wrong, which is printed.
inline std::optional<Found> find_fastest(const std::vector<MatrixProduct>& products, const TuningOptions& options) {
  struct Candidate {
    TwinChoice choice;
    Prepared prepared;
  };
  const MatrixProduct& p = products.front();
  const double operations = 2. * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const double tera = operations * 1e-9;
  const int launches = operations > 4e12 ? 8 : options.launches;
  const TwinChoice usual = usual_choice(p);
  std::vector<Candidate> all;
  bool right = true;
  const auto look_at = [&](const TwinChoice& choice) {
    Candidate candidate{.choice = choice, .prepared = {}};
    candidate.prepared.name =
        std::string(name_of(choice.kind)) + (choice.band > 0 ? " " + std::to_string(choice.band) : "");
    for (const MatrixProduct& product : products) {
      candidate.prepared.launches.push_back(prepare_twin(choice, product));
    }
    const Verdict verdict = verify(p, candidate.prepared, nullptr);
    if (!verdict.right()) {
      std::printf("%lldx%lldx%lld: %s is wrong in %lld of %lld elements\n", static_cast<long long>(p.m),
                  static_cast<long long>(p.n), static_cast<long long>(p.k), candidate.prepared.name.c_str(),
                  static_cast<long long>(verdict.in_double.wrong), static_cast<long long>(verdict.in_double.compared));
      right = false;
      return;
    }
    candidate.prepared.burst.push_back(
        tera / time_launches(candidate.prepared, std::max(2, launches / 3), std::min(5, options.pause_ms)));
    all.push_back(std::move(candidate));
  };
  for (const TwinKind kind : kTwinKinds) {
    // What stores by threads is measured only where nothing else can be.
    if (takes(kind, p) && (!stores_by_threads(kind) || p.n % 8 != 0)) look_at({kind, 0});
  }
  double best_rate = 0;
  for (const Candidate& candidate : all) best_rate = std::max(best_rate, candidate.prepared.burst[0]);
  const size_t kinds = all.size();
  for (size_t i = 0; i < kinds; ++i) {
    if (all[i].prepared.burst[0] < kWorthBands * best_rate) continue;
    for (const int band : options.bands) {
      if (band > 0 && (band - 1) * 128 < p.m) look_at({all[i].choice.kind, band});  // few tiles are one band
    }
  }
  if (!right || all.empty()) return std::nullopt;

  std::sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    const bool a_is_usual = a.choice == usual, b_is_usual = b.choice == usual;  // the usual one stays in any case
    return a_is_usual != b_is_usual ? a_is_usual : a.prepared.burst[0] > b.prepared.burst[0];
  });
  all.resize(std::min<size_t>(all.size(), 1 + options.finalists));
  for (Candidate& candidate : all) candidate.prepared.burst.clear();
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (size_t i = 0; i < all.size(); ++i) {
      Prepared& prepared = all[(i + repeat) % all.size()].prepared;
      prepared.burst.push_back(tera / time_launches(prepared, launches, options.pause_ms));
    }
  }
  const auto rate = [](const Candidate& candidate) { return median(candidate.prepared.burst); };
  const Candidate& best =
      *std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) { return rate(a) < rate(b); });
  const Candidate& chosen = rate(best) > kWorthIt * rate(all[0]) ? best : all[0];
  Found found{chosen.choice, rate(chosen), rate(all[0]), {}};
  for (const Candidate& candidate : all) found.others.emplace_back(candidate.prepared.name, rate(candidate));
  return found;
}

}  // namespace stagecraft
