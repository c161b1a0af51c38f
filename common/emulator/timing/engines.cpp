#include "emulator/timing/engines.hpp"

#include <algorithm>
#include <bit>
#include <span>

namespace stagecraft::emulator::timing {
namespace {

constexpr double kRowBytes = 32;  // along K, of each row of A or B, in any type

/// Passes over shared memory for each of an atomic addition of floats: float-additions, `32 warps, 32 words apart`. Of
/// fewer warps the latency is the limit.
constexpr double kFloatAtomicPasses = 3.67;

/// Lines that a copy engine asks for before those of others come: much less than what arrives within a latency.
constexpr size_t kLinesAtOnce = 16;

}  // namespace

/// Sources: wgmma in tests/silicon/results; tcgen05.mma as in chip_model.cpp: one multiprocessor takes max(N/2,
/// 32 + N/4) cycles for M = 128, and a pair max(N/2, 36 + N/8) for M = 256, and half of N/2 for M = 128. The second
/// terms are the operands over 128 bytes a cycle.
ProductCycles cycles_of_product(const Operation& operation) {
  const double sharers = operation.of_pair ? 2 : 1;
  const double rows = operation.m / sharers, columns = operation.n / sharers;
  ProductCycles cycles;
  cycles.tensor = operation.n / 2.;
  if (operation.of_pair && operation.m == 128 && !operation.sparse) cycles.tensor /= 2;  // layout e, not half of it
  if (!operation.tensor_memory) cycles.tensor = std::max(cycles.tensor, 13.);
  // A sparse product takes as long as a dense one of the same bytes of A, and so half as long for each K, if shared
  // memory supplies twice the bytes of B in time.
  const double b_bytes = operation.sparse ? 2 * kRowBytes : kRowBytes;
  cycles.port = (operation.a_in_shared ? rows : 0) * kRowBytes / 128 + columns * b_bytes / 128;
  cycles.tensor = std::max(cycles.tensor, cycles.port);
  return cycles;
}

const std::vector<LineRequest>& Engines::lines_of(const ClusterTrace& trace, const Operation& operation) {
  const auto first = trace.lines.begin() + operation.first_line;
  lines_.assign(first, first + operation.lines);
  if (operation.rows == 0) return lines_;
  const uint64_t begin_of_all = trace.addresses[operation.address];
  for (uint32_t i = 0; i < operation.planes * operation.rows; ++i) {
    const uint64_t row =
        begin_of_all + i / operation.rows * operation.plane_pitch + i % operation.rows * operation.pitch;
    const uint64_t last = row + std::max(operation.row_bytes, 1u) - 1;
    for (uint64_t line = row / kLineBytes; line <= last / kLineBytes; ++line) {
      const uint64_t begin = std::max(row, line * kLineBytes), end = std::min(last, (line + 1) * kLineBytes - 1);
      lines_.push_back(request_of(line, sectors_between(begin, end)));
    }
  }
  return lines_;
}

CopyUnderWay Engines::begin_copy(double now, const RunningCluster& cluster, const Operation& operation) {
  CopyUnderWay copy;
  copy.cluster = cluster.id;
  copy.operation = &operation;
  for (const uint32_t target : operation.targets) copy.targets.push_back(cluster.places[target]);
  copy.lines = lines_of(*cluster.trace, operation);
  copy.start = cluster.places[operation.block]->copy_engine.serve(now, chip_.copy_start) - chip_.copy_start;
  // As if at random, and always the same for a block.
  const uint32_t mixed =
      ((cluster.id + 1) * 0x9e3779b1u ^ cluster.places[operation.block]->index * 0x85ebca6bu) * 0xc2b2ae35u;
  copy.drift = chip_.copy_drift * (mixed / 2147483648. - 1);
  bytes_ += static_cast<double>(operation.bytes);
  return copy;
}

double Engines::ask_for_lines(double now, Multiprocessor& issuer, CopyUnderWay& copy) {
  const size_t count = std::min(kLinesAtOnce, copy.lines.size() - copy.asked);
  const double part = copy.lines.empty() ? 1 : static_cast<double>(count) / static_cast<double>(copy.lines.size());
  const double bytes = part * static_cast<double>(copy.operation->bytes);
  const double cycles = std::max(bytes / chip_.copy_bytes, static_cast<double>(count) * chip_.copy_row);
  double end = memory_.read(now, issuer.index, std::span(copy.lines).subspan(copy.asked, count),
                            chip_.copy_latency_dram - chip_.copy_latency_l2, copy.targets.size() == 1);
  for (Multiprocessor* place : copy.targets) {
    end = std::max(end, place->copy_in.serve(now, cycles));
    end = std::max(end, place->port.serve(now, bytes / chip_.shared_bytes));
  }
  copy.asked += count;
  copy.arrives = std::max(copy.arrives, end + chip_.copy_latency_l2 - chip_.poll + copy.drift);
  return now + cycles;
}

OperationTimes Engines::copy_by_threads(double now, RunningCluster& cluster, const Operation& operation) {
  Multiprocessor& place = *cluster.places[operation.block];
  const auto bytes = static_cast<double>(operation.bytes);
  double end = memory_.read(now, place.index, lines_of(*cluster.trace, operation),
                            chip_.copy_latency_dram - chip_.copy_latency_l2, true);
  bytes_ += bytes;
  end = std::max(
      {end, place.copy_in.serve(now, bytes / chip_.copy_bytes), place.port.serve(now, bytes / chip_.shared_bytes)});
  end += chip_.thread_copy_latency_l2 - chip_.poll;
  return {end, end};
}

OperationTimes Engines::copy_out(double now, RunningCluster& cluster, const Operation& operation) {
  Multiprocessor& place = *cluster.places[operation.block];
  const auto bytes = static_cast<double>(operation.bytes);
  const double start = place.copy_engine.serve(now, chip_.copy_start) - chip_.copy_start;
  const double port = place.port.serve(start, bytes / chip_.shared_bytes);
  const auto& lines = lines_of(*cluster.trace, operation);
  const double written = memory_.write(start, lines);
  bytes_ += bytes;
  const double read =
      std::max({port, written, place.copy_out.serve(start, bytes / chip_.store_bytes)}) + chip_.store_latency;
  constexpr double kWritten = 24;  // `store until wait_group`, less `store until wait_group.read`
  return {read, read + kWritten};
}

OperationTimes Engines::multiply(double now, RunningCluster& cluster, const Operation& operation) {
  const ProductCycles cycles = cycles_of_product(operation);
  operations_ += 2. * operation.m * operation.n * operation.k;
  double end = now;
  const uint32_t first = operation.of_pair ? operation.block & ~1u : operation.block;
  for (uint32_t rank = first; rank <= (operation.of_pair ? first + 1 : first); ++rank) {
    Multiprocessor& place = *cluster.places[rank];
    end = std::max(end, place.tensor.serve(now, cycles.tensor));
    // Products go first: with two warpgroups of wgmma, copies get what is left of 128 bytes a cycle, and the tensor
    // core loses nothing. Source: tests/silicon/results, contention, `copied, 2 warpgroups`.
    if (chip_.products_read_through_port) place.port.take(now, cycles.port);
  }
  double& last = cluster.products_end[operation.block];
  last = std::max(last, end + (operation.of_pair ? chip_.product_latency_pair : chip_.product_latency));
  return {last, last};
}

OperationTimes Engines::start(double now, RunningCluster& cluster, const Operation& operation, uint32_t warp) {
  Multiprocessor& place = *cluster.places[operation.block];
  const auto bytes = static_cast<double>(operation.bytes);
  double done = now;
  switch (operation.engine) {
    case Engine::copy_in: break;  // see begin_copy
    case Engine::thread_copy: return copy_by_threads(now, cluster, operation);
    case Engine::copy_out: return copy_out(now, cluster, operation);
    case Engine::product: return multiply(now, cluster, operation);
    case Engine::copy_between: {
      const double sent = place.between.serve(now, bytes / chip_.between_bytes);
      done = sent + chip_.between_latency - chip_.poll;
      break;
    }
    case Engine::tensor_copy: {
      // Into tensor memory, in the order of the products.
      done = place.tensor.serve(now, bytes / chip_.shared_bytes);
      place.port.take(now, bytes / chip_.shared_bytes);
      cluster.products_end[operation.block] = std::max(cluster.products_end[operation.block], done);
      break;
    }
    case Engine::commit: {
      const uint32_t first = operation.block & ~1u;
      done = std::max(now, cluster.products_end[operation.block] - chip_.poll);
      if (operation.of_pair && first + 1 < cluster.products_end.size()) {
        done = std::max({done, cluster.products_end[first] - chip_.poll, cluster.products_end[first + 1] - chip_.poll});
      }
      break;
    }
    case Engine::tensor_load:
    case Engine::tensor_store: {
      const double columns = bytes / 128;  // 32 lanes of 4 bytes
      done = place.tensor_loads[warp % kSubPartitions].serve(now, columns / chip_.tensor_load_columns) +
             chip_.tensor_load_latency;
      break;
    }
    case Engine::cluster_launch: done = now + chip_.cluster_launch - chip_.poll; break;
  }
  return {done, done};
}

double Engines::access(double now, Multiprocessor& place, const ClusterTrace& trace, const Access& access) {
  if (access.shared && access.remote) {
    return place.between.serve(now, access.passes * 128. / chip_.between_bytes) + chip_.remote_latency;
  }
  if (access.shared) {
    // Each pass more adds one cycle to the rate and two to the latency: `ld.shared 4 bytes latency, N ways`.
    const double more = access.passes > 1 ? access.passes - 1. : 0;
    if (access.atomic && access.floating) {
      const double alone = chip_.shared_float_atomic + (access.same - 1.) * chip_.shared_float_atomic_more;
      return std::max(place.port.serve(now, kFloatAtomicPasses * access.passes), now + alone);
    }
    return place.port.serve(now, access.passes) + more + chip_.shared_latency - 1;
  }
  const auto bytes = static_cast<double>(access.sectors * kSectorBytes);
  bytes_ += bytes;
  // Its words are in banks, as those of shared memory, and it takes the same path.
  const double passes = std::max({1., static_cast<double>(access.passes), access.lines / chip_.l1_lines});
  const std::span lines(trace.lines.data() + access.first_line, access.lines);
  if (access.store) {
    // Loads wait while a store leaves: rows-and-pages, `copied, 3072 bytes apart, 1 SMs of 8 warps`: 101 cycles for a
    // load of 32 passes and a store of 32 sectors with masks.
    const double cycles = std::max(passes, (bytes + access.partial_lines * kSectorBytes) / chip_.store_bytes);
    const double port = place.port.serve(now, cycles), sent = place.copy_out.serve(now, cycles);
    const double written = memory_.write(now, lines, access.partial_lines);
    return std::max({port, sent, written});
  }
  const double dram_latency = chip_.dram_latency - chip_.l2_latency;
  // Each pass more takes two cycles of the latency, as of shared memory: rows-and-pages, `loaded one by one, 4096 bytes
  // apart, 1 SMs of 1 warps`.
  const double port = place.port.serve(now, access.atomic ? access.lines : passes) + (access.atomic ? 0 : passes - 1);
  if (access.atomic) {
    return std::max(port, memory_.update(now, lines, access, dram_latency)) + chip_.l2_latency;
  }
  lines_.clear();
  arriving_.clear();
  double hits = 0, missed = 0;
  for (const LineRequest line : lines) {
    const CacheLines::Read read = place.l1.read(line);
    if (read.missing == 0) {
      hits = std::max(hits, read.arrives);
    } else {
      lines_.push_back(request_of(line_of(line), read.missing));
      arriving_.push_back(&read.arrives);
      missed += std::popcount(read.missing) * double{kSectorBytes};
    }
  }
  if (lines_.empty()) return std::max(port + chip_.l1_latency - 1, hits);
  const double served = memory_.read(now, place.index, lines_, dram_latency);
  // A line that is missed takes a cycle: `loads from L2 of 4 bytes a lane, lanes 128 bytes apart, 1 SM`.
  const double sent = place.loads.serve(now, std::max(missed / chip_.load_bytes, static_cast<double>(lines_.size())));
  const double done = std::max({port, served, sent}) + chip_.l2_latency;
  for (double* const arrives : arriving_) *arrives = done;
  return std::max(done, hits);
}

}  // namespace stagecraft::emulator::timing
