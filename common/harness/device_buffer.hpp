// Device memory that frees itself, and its traffic with the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/cuda_error.hpp"

namespace stagecraft::harness {

/// `size()` elements of device memory. Errors are CudaError exceptions that name the buffer.
template <typename T>
class DeviceBuffer {
 public:
  /// @param name  what the buffer holds, for messages: "A".
  DeviceBuffer(size_t size, std::string name) : size_(size), name_(std::move(name)) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes()),
          ("allocate " + std::to_string(bytes()) + " bytes on the device for " + name_).c_str());
    data_ = static_cast<T*>(data);
  }

  /// Allocates as much as `values` need and copies them there.
  DeviceBuffer(std::span<const T> values, std::string name) : DeviceBuffer(values.size(), std::move(name)) {
    check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice),
          ("copy " + name_ + " to the device").c_str());
  }

  /// The other buffer is empty afterwards.
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_), name_(std::move(other.name_)) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  ~DeviceBuffer() { (void)cudaFree(data_); }

  /// The device address of the first element.
  T* data() const { return data_; }
  /// Elements.
  size_t size() const { return size_; }
  /// Bytes of all elements together.
  size_t bytes() const { return size_ * sizeof(T); }

  /// Fills every byte with 0xff, which no floating-point type reads as a number: what a kernel forgets to write shows.
  void poison() { check(cudaMemset(data_, 0xff, bytes()), ("poison " + name_).c_str()); }

  /// A copy of the elements on the host, after all that was launched before.
  std::vector<T> to_host() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost),
          ("copy " + name_ + " to the host").c_str());
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
  std::string name_;
};

}  // namespace stagecraft::harness
