// Clusters of one block, asked for and not.
#include "cluster.hpp"

using namespace stagecraft::conformance;

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    run_cluster(report, 0, 3);
    run_cluster(report, 1, 3);
  });
}
