// Kernels of chapter 03 whose threads ask whether they must wait: each answer doubles the interleavings.
#include "device_array.hpp"
#include "launches.hpp"

int main() {
  for (const int steps : {1, kLead, kLead + 1}) launch_walk_together(zeros<int>(steps), steps);
  constexpr int kRows = 4, kPieces = 2;
  launch_two_jobs(zeros<float>(kRows * kRow), zeros<float>(kRows), kRows, zeros<float>(32 * kPieces), kPieces,
                  zeros<int>(1));
  return finish();
}
