// From addresses to bytes, the careful way: lane by lane, with a reason for each address that is refused.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "emulator/instructions/memory_access.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// What a report about an access of shared memory says.
struct Wish {
  std::string_view name;
  AccessVerb verb;
  uint32_t bytes;
  bool cluster_wide;
};

std::string_view spell(AccessVerb verb) {
  switch (verb) {
    case AccessVerb::reads: return "reads";
    case AccessVerb::writes: return "writes";
    case AccessVerb::updates: return "updates";
  }
  return {};
}

std::string bytes_phrase(uint64_t count) { return fmt::format("{} byte{}", count, count == 1 ? "" : "s"); }

/// "`ld.global.f32` reads 4 bytes"
std::string act(std::string_view name, AccessVerb verb, uint32_t bytes) {
  return fmt::format("`{}` {} {}", name, spell(verb), bytes_phrase(bytes));
}

/// Whether the kernel reads the address of the scratch memory of cooperative groups.
bool has_scratch(const Kernel* kernel) {
  return kernel != nullptr &&
         std::any_of(kernel->specials.begin(), kernel->specials.end(),
                     [](const SpecialSlot& slot) { return slot.special == Special::reserved_scratch; });
}

std::string shared_size_phrase(Fragment& fragment, const Block& block) {
  const Grid& grid = fragment.grid();
  const uint64_t size = block.shared.size() > kSharedReservedBytes ? block.shared.size() - kSharedReservedBytes : 0;
  const uint64_t dynamic = grid.request != nullptr ? grid.request->dynamic_shared_bytes : 0;
  return fmt::format("the block has {} of shared memory ({} static, {} dynamic), at offsets {:#x} up to {:#x}",
                     bytes_phrase(size), size >= dynamic ? size - dynamic : 0, dynamic, kSharedReservedBytes,
                     kSharedReservedBytes + size);
}

/// The byte of shared memory at an address, or what is wrong with it. The caller adds the lanes and throws.
struct SharedResult {
  std::byte* pointer = nullptr;
  FaultKind kind = FaultKind::illegal_address;
  std::string message;
  std::vector<std::string> details;
};

SharedResult find_shared(Fragment& fragment, uint32_t address, const Wish& wish) {
  Block& own = fragment.block();
  const uint32_t rank = address >> kSharedRankShift;
  const uint32_t offset = address & kSharedOffsetMask;
  Block* block = &own;
  SharedResult result;
  const auto start = [&] {
    return fmt::format("{} at shared address {:#x}", act(wish.name, wish.verb, wish.bytes), address);
  };
  if (rank != own.rank) {
    if (!wish.cluster_wide) {
      result.message =
          fmt::format("{}, which belongs to the block of rank {}; this block has rank {}", start(), rank, own.rank);
      result.details = {"`.shared` means the block's own shared memory (.shared::cta)",
                        "for another block's, use the .shared::cluster form, or a generic address made by mapa"};
      return result;
    }
    block = fragment.cluster().block_of(address);
    if (block == nullptr) {
      result.message = fmt::format("{}, in the block of rank {}; the cluster has {} block{}", start(), rank,
                                   fragment.cluster().blocks.size(), fragment.cluster().blocks.size() == 1 ? "" : "s");
      result.details = {"a launch without a cluster size makes clusters of one block"};
      return result;
    }
    if (block->exited) {
      result.message = fmt::format("{}, in the block of rank {}, which has exited", start(), rank);
      result.details = {"a block's shared memory ends with the block",
                        "let the blocks of a cluster meet at barrier.cluster (cluster.sync()) after the last access"};
      return result;
    }
  }
  const uint64_t size = block->shared.size();
  if (offset < kSharedReservedBytes && !(offset >= kSharedScratch && has_scratch(fragment.grid().kernel))) {
    result.message = fmt::format("{}, in the {} that the system reserves", start(), bytes_phrase(kSharedReservedBytes));
    result.details = {shared_size_phrase(fragment, *block),
                      offset < 16 ? "this looks like a null pointer to shared memory"
                                  : "addresses of shared variables are not offsets from 0: take them with "
                                    "__cvta_generic_to_shared"};
    return result;
  }
  if (offset > size || wish.bytes > size - offset) {
    result.message = fmt::format("{}, outside of the block's shared memory", start());
    result.details = {shared_size_phrase(fragment, *block)};
    const Kernel& kernel = *fragment.grid().kernel;
    const uint64_t dynamic = fragment.grid().request != nullptr ? fragment.grid().request->dynamic_shared_bytes : 0;
    const bool has_dynamic = dynamic != 0 || kernel.declares_dynamic_shared();
    if (const std::string gap = kernel.describe_gap(offset); !has_dynamic && !gap.empty()) {
      result.details.push_back("that is " + gap);
    } else if (dynamic == 0 && offset >= size) {
      result.details.emplace_back(
          "the launch asked for no dynamic shared memory: the third argument of <<<blocks, threads, bytes>>>");
    }
    return result;
  }
  result.pointer = block->shared.data() + offset;
  return result;
}

/// The result for one lane: a pointer, or why there is none.
struct Verdict {
  std::byte* pointer = nullptr;
  FaultKind kind = FaultKind::illegal_address;
  std::string message;
  std::vector<std::string> details;
};

Verdict refuse(FaultKind kind, std::string message, std::vector<std::string> details = {}) {
  return {nullptr, kind, std::move(message), std::move(details)};
}

bool looks_like_host(uint64_t address) { return address - 0x5500'0000'0000 < 0x2b00'0000'0000; }

Verdict find_global(Fragment& fragment, const AccessDetail& access, uint64_t address) {
  DeviceMemory& memory = *fragment.grid().memory;
  const auto start = [&] { return fmt::format("{} at {:#x}", act(access.name, access.verb, access.bytes), address); };
  // The chip also checks the alignment first.
  if (address % access.alignment != 0) {
    return refuse(
        FaultKind::misaligned_address, fmt::format("{}, which is not a multiple of {}", start(), access.alignment),
        {memory.describe(address), access.count > 1 ? "a vector access must be aligned to the size of the whole vector"
                                                    : "an access must be aligned to its size"});
  }
  const Allocation* allocation = memory.find(address, access.bytes);
  if (allocation == nullptr) {
    std::vector<std::string> details;
    const Allocation* begins = memory.find(address);
    if (begins != nullptr) {
      return refuse(FaultKind::illegal_address,
                    fmt::format("{}, which runs past the end of an allocation: {}", start(), memory.describe(address)));
    }
    if (address < 4096) {
      details.emplace_back("a pointer was not set, or a cudaMalloc failed and its result was not looked at");
    }
    if (address >= kSharedReservedBytes && address >> 32 == 0) {
      details.emplace_back("this may be a 32-bit shared-memory address: those need .shared");
    } else if (address - kSharedWindow < kWindowBytes) {
      details.emplace_back(
          "this is a shared-memory address: read it with ld.shared or a generic load, not as global memory");
    } else if (address - kLocalWindow < kWindowBytes) {
      details.emplace_back(
          "this is an address of a thread's local variable: only ld.local, st.local and generic accesses reach it");
    } else if (looks_like_host(address)) {
      details.emplace_back(
          "this looks like a pointer of the host, which a kernel cannot follow: copy the data to memory from "
          "cudaMalloc, or allocate it with cudaMallocManaged");
    }
    return refuse(FaultKind::illegal_address, fmt::format("{}: {}", start(), memory.describe(address)),
                  std::move(details));
  }
  if (access.verb != AccessVerb::reads && !allocation->writable_by_kernels) {
    return refuse(FaultKind::illegal_address,
                  fmt::format("{}, which kernels may only read: {}", start(), memory.describe(address)),
                  {"constant variables and kernel parameters are set by the host"});
  }
  access.cache.set(allocation->address, allocation->address + allocation->size - access.bytes);
  return {DeviceMemory::host(address), {}, {}, {}};
}

/// The address as the program gives it, before it is cut to the 32 bits that count in shared memory.
uint64_t written_address(const Fragment& fragment, const AccessDetail& access, uint32_t lane) {
  const auto offset = static_cast<uint64_t>(access.offset);
  if (access.base == kNoRegister) return offset;
  const std::byte* const base = fragment.registers + access.base;
  if (access.wide) {
    uint64_t value = 0;
    std::memcpy(&value, base + lane * sizeof value, sizeof value);
    return value + offset;
  }
  uint32_t value = 0;
  std::memcpy(&value, base + lane * sizeof value, sizeof value);
  return value + offset;
}

Verdict find_in_shared(Fragment& fragment, const AccessDetail& access, uint64_t address, bool cluster_wide) {
  if (address % access.alignment != 0) {
    return refuse(FaultKind::misaligned_address,
                  fmt::format("{} at shared address {:#x}, which is not a multiple of {}",
                              act(access.name, access.verb, access.bytes), address, access.alignment),
                  {access.count > 1 ? "a vector access must be aligned to the size of the whole vector"
                                    : "an access must be aligned to its size"});
  }
  SharedResult result =
      find_shared(fragment, static_cast<uint32_t>(address), {access.name, access.verb, access.bytes, cluster_wide});
  if (result.pointer == nullptr) return refuse(result.kind, std::move(result.message), std::move(result.details));
  return {result.pointer, {}, {}, {}};
}

Verdict find_local(Fragment& fragment, const AccessDetail& access, uint64_t offset, uint32_t lane) {
  const Warp& warp = *fragment.warp;
  const auto start = [&] {
    return fmt::format("{} at offset {:#x} of local memory", act(access.name, access.verb, access.bytes), offset);
  };
  if (access.bytes > warp.local_stride || offset > warp.local_stride - access.bytes) {
    return refuse(FaultKind::illegal_address,
                  fmt::format("{}; a thread of this kernel has {}", start(), bytes_phrase(warp.local_stride)),
                  {"an index into a local array is out of its bounds"});
  }
  if (offset % access.alignment != 0) {
    return refuse(FaultKind::misaligned_address,
                  fmt::format("{}, which is not a multiple of {}", start(), access.alignment));
  }
  return {warp.local + uint64_t{lane} * warp.local_stride + offset, {}, {}, {}};
}

Verdict find_parameter(Fragment& fragment, const AccessDetail& access, uint64_t offset) {
  const std::vector<std::byte>& parameters = fragment.grid().request->parameters;
  const auto start = [&] {
    return fmt::format("{} at offset {:#x} of the kernel's parameters", act(access.name, access.verb, access.bytes),
                       offset);
  };
  if (access.verb != AccessVerb::reads) {
    return refuse(FaultKind::illegal_address, fmt::format("{}, which are read-only", start()));
  }
  if (access.bytes > parameters.size() || offset > parameters.size() - access.bytes) {
    return refuse(FaultKind::illegal_address,
                  fmt::format("{}; there are {}", start(), bytes_phrase(parameters.size())));
  }
  if (offset % access.alignment != 0) {
    return refuse(FaultKind::misaligned_address,
                  fmt::format("{}, which is not a multiple of {}", start(), access.alignment));
  }
  // Kernels only read the buffer, which belongs to the launch.
  return {const_cast<std::byte*>(parameters.data()) + offset, {}, {}, {}};
}

Verdict find_lane(Fragment& fragment, const AccessDetail& access, uint32_t lane) {
  const uint64_t address = address_of_lane(fragment, access, lane);
  switch (access.space) {
    case AccessSpace::global: return find_global(fragment, access, address);
    case AccessSpace::shared:
    case AccessSpace::shared_cluster: {
      const bool cluster_wide = access.space == AccessSpace::shared_cluster;
      Verdict verdict = find_in_shared(fragment, access, address, cluster_wide);
      const uint64_t written = written_address(fragment, access, lane);
      if (verdict.pointer == nullptr && access.wide && written >> 32 != 0) {
        verdict.details.push_back(fmt::format("these are the lower 32 bits of {:#x}, all that counts with .shared; {}",
                                              written, fragment.grid().memory->describe(written)));
      }
      return verdict;
    }
    case AccessSpace::local: return find_local(fragment, access, address, lane);
    case AccessSpace::kernel_parameter: return find_parameter(fragment, access, address);
    case AccessSpace::call_parameter:
      return {fragment.registers + access.call_area + uint64_t{lane} * access.call_stride + address, {}, {}, {}};
    case AccessSpace::generic: break;
  }
  const Located located = locate(address);
  switch (located.where) {
    case Located::Where::shared: return find_in_shared(fragment, access, located.address, true);
    case Located::Where::local:
      if (access.verb == AccessVerb::updates) {
        return refuse(FaultKind::invalid_address_space,
                      fmt::format("`{}` is given an address of local memory", access.name),
                      {"atomic operations work on global and shared memory"});
      }
      return find_local(fragment, access, located.address, lane);
    case Located::Where::global: break;
  }
  return find_global(fragment, access, address);
}

/// The pointer of a lane whose address is of a common kind and legal; null where more must be looked at.
std::byte* find_quickly(Fragment& fragment, const AccessDetail& access, uint32_t lane) {
  if (access.space != AccessSpace::global && access.space != AccessSpace::generic) return nullptr;
  const uint64_t address = address_of_lane(fragment, access, lane);
  if ((address & (access.alignment - 1)) != 0) return nullptr;
  const AllocationCache::Copy cache = access.cache.copy();
  if (cache.usable && address >= cache.first && address <= cache.last) {
    return reinterpret_cast<std::byte*>(address + cache.distance);
  }
  Block& block = *fragment.warp->block;
  const uint64_t offset = address - kSharedWindow - (uint64_t{block.rank} << kSharedRankShift);
  const uint64_t size = block.shared.size();
  if (access.space == AccessSpace::generic && offset >= kSharedReservedBytes && offset <= size &&
      access.bytes <= size - offset) {
    return block.shared.data() + offset;
  }
  return nullptr;
}

}  // namespace

std::string spell_lanes(LaneMask lanes) {
  if (lanes == kAllLanes) return "all lanes";
  std::string text;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    uint32_t last = lane;
    while (last + 1 < kWarpSize && (lanes >> (last + 1) & 1) != 0) ++last;
    if (!text.empty()) text += ", ";
    text += last == lane ? fmt::format("{}", lane) : fmt::format("{}-{}", lane, last);
    lane = last;
  }
  return fmt::format("{} {}", std::popcount(lanes) == 1 ? "lane" : "lanes", text);
}

uint64_t address_of_lane(const Fragment& fragment, const AccessDetail& access, uint32_t lane) {
  const uint64_t address = written_address(fragment, access, lane);
  const bool wraps = access.space == AccessSpace::shared || access.space == AccessSpace::shared_cluster;
  return wraps ? static_cast<uint32_t>(address) : address;
}

void locate_carefully(Fragment& fragment, const AccessDetail& access, LaneMask mask, uint64_t* pointers) {
  LaneMask bad = 0;
  Verdict first;
  for_each_lane(mask, [&](uint32_t lane) {
    if (std::byte* const pointer = find_quickly(fragment, access, lane)) {
      pointers[lane] = reinterpret_cast<uint64_t>(pointer);
      return;
    }
    Verdict verdict = find_lane(fragment, access, lane);
    pointers[lane] = reinterpret_cast<uint64_t>(verdict.pointer);
    if (verdict.pointer != nullptr) return;
    if (bad == 0) first = std::move(verdict);
    bad |= 1u << lane;
  });
  if (bad == 0) return;
  if (std::popcount(bad) > 1) {
    first.details.push_back(
        fmt::format("{} are at fault; this is the address of lane {}", spell_lanes(bad), first_lane(bad)));
  }
  throw Fault(first.kind, std::move(first.message), std::move(first.details), bad);
}

}  // namespace stagecraft::emulator::machine
