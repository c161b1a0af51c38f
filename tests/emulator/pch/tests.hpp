// Precompiled for every test of the emulator: see common/emulator/pch/emulator.hpp.
#include <gtest/gtest.h>

#include <random>

#include "emulator/pch/emulator.hpp"
