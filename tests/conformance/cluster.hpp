// What a block learns about its cluster and does with it: ranks, addresses of peers, remote arrivals, multicast copies.
// Shared by the programs for clusters of one block and of several.
#pragma once

#include <cuda/ptx>

#include "report.hpp"
#include "stagecraft/mbarrier.hpp"

namespace stagecraft::conformance {

inline constexpr int kClusterThreads = 64;
inline constexpr int kClusterResults = 16;

/// Every block writes to the next one's shared memory, arrives on its barrier, and lets TMA write there.
__global__ void ask_cluster(const uint32_t* in, uint32_t* out) {
  namespace ptx = cuda::ptx;
  __shared__ alignas(128) uint32_t inbox[kClusterThreads];
  __shared__ alignas(128) uint32_t bulk[64];
  __shared__ alignas(128) uint32_t own[64];
  __shared__ uint64_t arrivals, bytes;
  const uint32_t rank = ptx::get_sreg_cluster_ctarank(), ranks = ptx::get_sreg_cluster_nctarank();
  const uint32_t next = (rank + 1) % ranks;
  out += (blockIdx.x * kClusterThreads + threadIdx.x) * kClusterResults;
  inbox[threadIdx.x] = 0;
  own[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x] + rank;
  if (threadIdx.x == 0) {
    init_barrier(&arrivals, kClusterThreads);
    init_barrier(&bytes, 1);
    fence_barrier_init();
    expect_bytes(&bytes, sizeof bulk);
  }
  ptx::fence_proxy_async(ptx::space_shared);
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();

  uint32_t remote_inbox, remote_arrivals, remote_bulk, remote_bytes, remote_rank;
  const auto map = [&](const void* address) {
    uint32_t mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(mapped)
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(address))), "r"(next));
    return mapped;
  };
  remote_inbox = map(&inbox[threadIdx.x]);
  remote_arrivals = map(&arrivals);
  remote_bulk = map(bulk);
  remote_bytes = map(&bytes);
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(remote_rank) : "r"(remote_inbox));
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote_inbox), "r"(in[threadIdx.x] * (rank + 3)) : "memory");
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_arrivals) : "memory");
  if (threadIdx.x == 0) {
    if (ranks > 1) {
      asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       remote_bulk),
                   "r"(static_cast<uint32_t>(__cvta_generic_to_shared(own))), "r"(static_cast<uint32_t>(sizeof bulk)),
                   "r"(remote_bytes)
                   : "memory");
    } else {  // shared memory to the same block's shared memory is not allowed; multicast to oneself is
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
          "%4;" ::"r"(remote_bulk),
          "l"(in + blockIdx.x * 64), "r"(static_cast<uint32_t>(sizeof bulk)), "r"(remote_bytes),
          "h"(static_cast<uint16_t>(1))
          : "memory");
    }
  }
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrivals, 0)) {
  }
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bytes, 0)) {
  }
  uint32_t remote_value;
  asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1000;" : "=r"(remote_value) : "r"(remote_inbox) : "memory");
  ptx::barrier_cluster_arrive(ptx::sem_release);
  ptx::barrier_cluster_wait();

  out[0] = rank;
  out[1] = ranks;
  out[2] = remote_rank;
  out[3] = (map(&inbox[0]) >> 24) - next;
  out[4] = inbox[threadIdx.x];
  out[5] = bulk[threadIdx.x];
  out[6] = ptx::get_sreg_clusterid_x();
  out[7] = ptx::get_sreg_nclusterid_x();
  out[8] = ptx::get_sreg_cluster_ctaid_x();
  out[9] = ptx::get_sreg_cluster_nctaid_x();
  out[10] = ptx::get_sreg_is_explicit_cluster();
  out[11] = remote_value != 0;
  uint64_t generic;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(generic) : "l"(&inbox[threadIdx.x]), "r"(next));
  out[12] = *reinterpret_cast<const volatile uint32_t*>(generic);
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();  // nobody leaves while a peer still reads here
}

/// Launches `blocks` blocks in clusters of `size`; 0 for a launch that does not mention clusters.
inline void run_cluster(Report& report, int size, int blocks) {
  Random random(report.seed() + size);
  std::vector<uint32_t> values;
  for (int i = 0; i < blocks * 64; ++i) values.push_back(static_cast<uint32_t>(random.bits()) | 1);
  const DeviceBuffer<uint32_t> in(values, "the input");
  DeviceBuffer<uint32_t> out(blocks * kClusterThreads * kClusterResults, "the output");
  check(cudaMemset(out.data(), 0, out.bytes()), "clear the output");

  const std::string name = size == 0
                               ? "without clusters"
                               : "clusters of " + std::to_string(size) + ", " + std::to_string(blocks) + " blocks";
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
  cudaLaunchConfig_t launch{};
  launch.gridDim = blocks;
  launch.blockDim = kClusterThreads;
  launch.attrs = &attribute;
  launch.numAttrs = size == 0 ? 0 : 1;
  check(cudaLaunchKernelEx(&launch, ask_cluster, static_cast<const uint32_t*>(in.data()), out.data()),
        ("launch " + name).c_str());
  finish_kernel(name);
  report.section(name, out.to_host());
}

}  // namespace stagecraft::conformance
