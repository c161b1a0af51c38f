// Clock, power and energy of the GPU, as NVML reports them. Nothing here changes a setting.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace stagecraft {

/// What NVML says about GPU 0; zeros where there is no NVML.
class GpuState {
 public:
  GpuState() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    int (*init)() = nullptr;
    int (*handle)(unsigned, void**) = nullptr;
    find(init, "nvmlInit_v2");
    find(handle, "nvmlDeviceGetHandleByIndex_v2");
    find(clock_, "nvmlDeviceGetClockInfo");
    find(power_, "nvmlDeviceGetPowerUsage");
    find(energy_, "nvmlDeviceGetTotalEnergyConsumption");
    find(temperature_, "nvmlDeviceGetTemperature");
    find(driver_, "nvmlSystemGetDriverVersion");
    if (init == nullptr || handle == nullptr || init() != 0 || handle(0, &device_) != 0) device_ = nullptr;
  }

  /// Clock of the multiprocessors, MHz.
  unsigned clock() const { return ask(clock_, /*NVML_CLOCK_SM*/ 1u); }
  /// Clock of the memory, MHz.
  unsigned memory_clock() const { return ask(clock_, /*NVML_CLOCK_MEM*/ 2u); }
  /// Degrees Celsius.
  unsigned temperature() const { return ask(temperature_, /*NVML_TEMPERATURE_GPU*/ 0u); }
  /// Watts, averaged by NVML.
  double power() const {
    unsigned milliwatts = 0;
    return device_ != nullptr && power_ != nullptr && power_(device_, &milliwatts) == 0 ? milliwatts * 1e-3 : 0;
  }
  /// Joules since the driver was loaded.
  double energy() const {
    unsigned long long millijoules = 0;
    return device_ != nullptr && energy_ != nullptr && energy_(device_, &millijoules) == 0
               ? static_cast<double>(millijoules) * 1e-3
               : 0;
  }
  std::string driver() const {
    char text[96] = "";
    if (device_ != nullptr && driver_ != nullptr) driver_(text, sizeof text);
    return text;
  }

 private:
  unsigned ask(int (*function)(void*, unsigned, unsigned*), unsigned what) const {
    unsigned value = 0;
    return device_ != nullptr && function != nullptr && function(device_, what, &value) == 0 ? value : 0;
  }

  void* device_ = nullptr;
  int (*clock_)(void*, unsigned, unsigned*) = nullptr;
  int (*temperature_)(void*, unsigned, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
  int (*energy_)(void*, unsigned long long*) = nullptr;
  int (*driver_)(char*, unsigned) = nullptr;
};

}  // namespace stagecraft
