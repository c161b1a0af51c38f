// Clusters of two, four and eight blocks.
#include "cluster.hpp"

using namespace stagecraft::conformance;

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    run_cluster(report, 2, 6);
    run_cluster(report, 4, 4);
    run_cluster(report, 8, 16);
  });
}
