// The steps on the way to the kernel, each of which adds one thing that a chapter teaches: to be measured beside it.
#include <cuda_runtime.h>

#include "contenders.hpp"
#include "first_steps.cuh"
#include "stagecraft/hopper_gemm/launch.cuh"

namespace stagecraft {
namespace {

struct Specialised : TwinDefaults {
  static constexpr int tile_m = 64;
  static constexpr int consumers = 1;
  static constexpr int cluster_m = 1;
  static constexpr bool overlaps = false;
  static constexpr bool by_copy_engine = false;
};
struct TwoConsumers : Specialised {
  static constexpr int tile_m = 128;
  static constexpr int consumers = 2;
};
struct Clusters : TwoConsumers {
  static constexpr int cluster_m = 2;
};
struct StoredByCopyEngine : Clusters {
  static constexpr bool by_copy_engine = true;
};

bool takes(const MatrixProduct& p) { return p.type == OperandType::bf16 && p.k % 8 == 0 && p.n % 8 == 0; }

template <int Stages>
AddContender first_step(const char* name) {
  return AddContender({.name = name, .takes = takes, .prepare = [](const MatrixProduct& p) -> Launch {
                         return [p](cudaStream_t stream) {
                           launch_one_warpgroup<Stages>(static_cast<const __nv_bfloat16*>(p.a),
                                                        static_cast<const __nv_bfloat16*>(p.b), p.c, p.m, p.n, p.k,
                                                        stream);
                         };
                       }});
}

template <typename Config>
AddContender step(const char* name, bool persistent) {
  return AddContender({.name = name, .takes = takes, .prepare = [persistent](const MatrixProduct& p) -> Launch {
                         return [launch = TwinLaunch<Config>(static_cast<const __nv_bfloat16*>(p.a),
                                                             static_cast<const __nv_bfloat16*>(p.b), p.c, p.m, p.n, p.k,
                                                             {.persistent = persistent})](cudaStream_t stream) mutable {
                           launch(stream);
                         };
                       }});
}

const AddContender one_warpgroup = first_step<1>("1_one_warpgroup"), ring = first_step<4>("2_ring"),
                   specialised = step<Specialised>("3_specialised", false),
                   two_consumers = step<TwoConsumers>("4_two_consumers", false),
                   clusters = step<Clusters>("5_clusters", false), persistent = step<Clusters>("6_persistent", true),
                   stored = step<StoredByCopyEngine>("7_stored_by_copy_engine", true);

}  // namespace
}  // namespace stagecraft
