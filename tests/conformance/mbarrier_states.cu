// What an mbarrier answers after every operation, in fixed sequences and in random legal ones.
#include <cstdlib>

#include "report.hpp"

using namespace stagecraft::conformance;

enum Operation : int {
  init,
  arrive,         // value: count
  arrive_drop,    // value: count
  expect,         // value: bytes
  complete,       // value: bytes
  arrive_expect,  // value: bytes
  drop_expect,    // value: bytes
  remote_arrive,  // value: count; through the cluster's address
};

struct Step {
  int operation;
  int value;
  int state_is_recent = 0;  ///< the state of the last arrive may still be asked for: at most one phase has ended since
};

/// The barrier as the manual describes it, to know what is legal next.
struct Model {
  int expected = 0, pending = 0, bytes = 0, phase = 0, phase_of_state = -2;

  void apply(const Step& step) {
    switch (step.operation) {
      case init: *this = Model{.expected = step.value, .pending = step.value}; break;
      case arrive_drop: expected -= step.value; [[fallthrough]];
      case arrive: phase_of_state = phase; [[fallthrough]];
      case remote_arrive: pending -= step.value; break;
      case expect: bytes += step.value; break;
      case complete: bytes -= step.value; break;
      case drop_expect: --expected; [[fallthrough]];
      case arrive_expect:
        phase_of_state = phase;
        bytes += step.value;
        --pending;
        break;
    }
    if (pending == 0 && bytes == 0) {
      pending = expected;
      ++phase;
    }
  }
};

__device__ bool test_parity(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}

__device__ bool test_state(uint32_t barrier, uint64_t state) {
  uint32_t done;
  asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
               : "=r"(done)
               : "r"(barrier), "l"(state)
               : "memory");
  return done;
}

// Each form of an arrival that gives a state.
#define ARRIVE(OPCODE, VALUE) asm volatile(OPCODE " %0, [%1], %2;" : "=l"(state) : "r"(barrier), "r"(VALUE) : "memory")

/// Bit 0: wait(0) would pass; bit 1: wait(1) would; bit 2: the phase in which the last arrive was made has ended.
__global__ void play(const Step* steps, int count, uint32_t* answers) {
  __shared__ uint64_t object;
  const uint32_t barrier = __cvta_generic_to_shared(&object);
  uint64_t state = 0;
  for (int i = 0; i < count; ++i) {
    const uint32_t value = steps[i].value;
    switch (steps[i].operation) {
      case init:
        if (i > 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(value) : "memory");
        break;
      case arrive: ARRIVE("mbarrier.arrive.shared::cta.b64", value); break;
      case arrive_drop: ARRIVE("mbarrier.arrive_drop.shared::cta.b64", value); break;
      case expect:
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(value) : "memory");
        break;
      case complete:
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(barrier), "r"(value)
                     : "memory");
        break;
      case arrive_expect: ARRIVE("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64", value); break;
      case drop_expect: ARRIVE("mbarrier.arrive_drop.expect_tx.release.cta.shared::cta.b64", value); break;
      case remote_arrive:
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(value)
                     : "memory");
        break;
    }
    uint32_t answer = test_parity(barrier, 0) | test_parity(barrier, 1) << 1;
    if (steps[i].state_is_recent) answer |= test_state(barrier, state) << 2;
    answers[i] = answer;
  }
}

/// The pending counts that `arrive.noComplete` reports.
__global__ void pending_counts(uint32_t* counts) {
  __shared__ uint64_t object;
  const uint32_t barrier = __cvta_generic_to_shared(&object);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1000;" ::"r"(barrier) : "memory");
  for (int i = 0; i < 10; ++i) {
    uint64_t state;
    if (i % 3 == 2) {
      ARRIVE("mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64", i + 1);
    } else {
      ARRIVE("mbarrier.arrive.noComplete.release.cta.shared::cta.b64", i * 7 + 1);
    }
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(counts[i]) : "l"(state));
  }
}

/// `cp.async` that arrives when its data is there, with and without its own arrival in the count.
__global__ void cp_async_arrivals(const uint32_t* in, uint32_t* out) {
  __shared__ uint64_t objects[2];
  __shared__ alignas(16) uint32_t data[2][4 * 32];
  const uint32_t plain = __cvta_generic_to_shared(&objects[0]), counted = __cvta_generic_to_shared(&objects[1]);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(plain) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(counted) : "memory");
  }
  __syncthreads();
  const uint32_t* from = in + threadIdx.x * 4;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(&data[0][threadIdx.x * 4]))),
               "l"(from)
               : "memory");
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(plain) : "memory");
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(plain) : "memory");
  while (!test_parity(plain, 0)) {
  }
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(&data[1][threadIdx.x * 4]))),
               "l"(from), "r"(threadIdx.x % 3 * 4)
               : "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(counted) : "memory");
  while (!test_parity(counted, 0)) {
  }
  const int other = (threadIdx.x + 5) % 32;
  out[threadIdx.x * 3] = data[0][other * 4 + 3];
  out[threadIdx.x * 3 + 1] = data[1][other * 4];
  out[threadIdx.x * 3 + 2] = data[1][other * 4 + 1];
}

void run_steps(Report& report, const std::string& name, std::vector<Step> steps) {
  Model model;
  for (Step& step : steps) {
    model.apply(step);
    step.state_is_recent = model.phase - model.phase_of_state <= 1;
  }
  const DeviceBuffer<Step> device_steps(steps, "the steps");
  DeviceBuffer<uint32_t> answers(steps.size(), "the answers");
  answers.poison();
  play<<<1, 1>>>(device_steps.data(), static_cast<int>(steps.size()), answers.data());
  finish_kernel("play: " + name);
  report.section(name, answers.to_host());
}

/// A random sequence that the manual allows: counts stay within what is pending, bytes within the range.
std::vector<Step> random_steps(Random random, int length) {
  std::vector<Step> steps;
  Model model;
  const auto add = [&](int operation, int value) {
    steps.push_back({operation, value});
    model.apply(steps.back());
  };
  add(init, 1 + static_cast<int>(random.bits() % 20));
  while (static_cast<int>(steps.size()) < length) {
    const uint64_t choice = random.bits();
    const int some = static_cast<int>(choice >> 32 & 0xffff);
    const int operation = static_cast<int>(choice % 20);
    const int count = 1 + some % (model.pending > 0 ? model.pending : 1);
    if (model.bytes > 500000 || model.bytes < -20000) {
      add(model.bytes > 0 ? complete : expect, std::abs(model.bytes));
    } else if (operation == init && some % 4 == 0) {
      add(init, 1 + some % 20);
    } else if (operation == expect || (model.pending == 0 && model.bytes < 0)) {
      add(expect, some % 3 == 0 && model.bytes < 0 ? -model.bytes : some);
    } else if (model.pending == 0 || operation > 13) {  // all bytes that are missing, or some that were not announced
      add(complete, model.bytes > 0 && some % 3 != 0 ? model.bytes : some % 4096);
    } else if (operation == arrive_expect) {
      add(arrive_expect, some);
    } else if (operation == drop_expect && model.expected > 1) {
      add(drop_expect, some);
    } else if (operation == arrive_drop && model.expected > 1) {
      add(arrive_drop, count < model.expected ? count : model.expected - 1);
    } else {
      add(operation % 2 == 0 ? remote_arrive : arrive, count);
    }
  }
  return steps;
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    run_steps(report, "three arrivals, twice",
              {{init, 3}, {arrive, 1}, {arrive, 1}, {arrive, 1}, {arrive, 2}, {arrive, 1}});
    run_steps(report, "bytes before their announcement",
              {{init, 1}, {complete, 16}, {arrive, 1}, {expect, 16}, {arrive, 1}});
    run_steps(report, "bytes in two parts", {{init, 2}, {expect, 64}, {complete, 16}, {arrive, 2}, {complete, 48}});
    run_steps(report, "announced with the arrival",
              {{init, 1}, {arrive_expect, 100}, {complete, 60}, {complete, 40}, {arrive, 1}});
    run_steps(report, "an arrival dropped",
              {{init, 3}, {arrive_drop, 1}, {arrive, 2}, {arrive, 2}, {arrive, 1}, {arrive, 1}});
    run_steps(report, "through the cluster", {{init, 2}, {remote_arrive, 1}, {remote_arrive, 1}, {remote_arrive, 2}});
    run_steps(report, "the largest count", {{init, 1048575}, {arrive, 1048574}, {arrive, 1}, {arrive, 1048575}});
    for (int i = 0; i < 8; ++i) {
      run_steps(report, "random sequence " + std::to_string(i), random_steps(Random(report.seed() * 100 + i), 400));
    }

    DeviceBuffer<uint32_t> counts(10, "the counts");
    pending_counts<<<1, 1>>>(counts.data());
    finish_kernel("pending_counts");
    report.section("pending counts", counts.to_host());

    std::vector<uint32_t> values;
    Random random(report.seed());
    for (int i = 0; i < 128; ++i) values.push_back(static_cast<uint32_t>(random.bits()));
    const DeviceBuffer<uint32_t> in(values, "the input");
    DeviceBuffer<uint32_t> out(96, "the output");
    cp_async_arrivals<<<1, 32>>>(in.data(), out.data());
    finish_kernel("cp_async_arrivals");
    report.section("cp.async arrivals", out.to_host());
  });
}
