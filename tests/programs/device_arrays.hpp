// Arrays in device memory, for tests of libraries that compute on the host.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

class DeviceArrays : public testing::Test {
 protected:
  void TearDown() override {
    for (void* pointer : taken_) EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }

  /// A copy in device memory.
  template <typename Element>
  Element* upload(const std::vector<Element>& values) {
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, values.size() * sizeof(Element)), cudaSuccess);
    taken_.push_back(pointer);
    EXPECT_EQ(cudaMemcpy(pointer, values.data(), values.size() * sizeof(Element), cudaMemcpyHostToDevice), cudaSuccess);
    return static_cast<Element*>(pointer);
  }
  template <typename Element>
  std::vector<Element> download(const Element* pointer, size_t count) {
    std::vector<Element> values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), pointer, count * sizeof(Element), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  /// Small integers, which every type holds exactly and whose sums are exact too.
  template <typename Element>
  std::vector<Element> integers(size_t count) {
    std::uniform_int_distribution<int> any(-4, 4);
    std::vector<Element> values(count);
    for (Element& value : values) value = Element(static_cast<float>(any(random_)));
    return values;
  }

  std::mt19937 random_{std::random_device{}()};

 private:
  std::vector<void*> taken_;
};
