// The chapter's kernel among the contenders of a benchmark, with tiles as large as its registers allow.
#include <gemm.cuh>

#include "contenders.hpp"
#include "gemm_launch.cuh"

namespace stagecraft {
namespace {

template <typename Config>
AddContender add(const char* name) {
  const auto takes = [](const MatrixProduct& p) { return p.type == OperandType::bf16 && p.k % 8 == 0 && p.n % 8 == 0; };
  return AddContender({.name = name, .takes = takes, .prepare = [](const MatrixProduct& p) -> Launch {
                         int multiprocessors = 0;
                         harness::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                                        "ask the device for its multiprocessors");
                         return [p, clusters = multiprocessors / Config::Cluster::blocks](cudaStream_t stream) {
                           start_gemm<Config>(static_cast<const __nv_bfloat16*>(p.a),
                                              static_cast<const __nv_bfloat16*>(p.b), Epilogue<>{}, p.c,
                                              static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
                                              clusters, /*width=*/16 / Config::Cluster::rows, stream);
                         };
                       }});
}

const AddContender cooperative = add<Config<Consumers::cooperative, 256>>("15_cooperative"),
                   ping_pong = add<Config<Consumers::ping_pong, 256>>("15_ping_pong"),
                   cluster = add<Config<Consumers::cooperative, 256, ClusterShape<2, 1>>>("15_cluster");

}  // namespace
}  // namespace stagecraft
