// Which entry of a fat binary the emulated chip runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/fatbin/container.hpp"

namespace stagecraft::emulator::fatbin {

/// The parts of a name such as "sm_100a"; nullopt for another form of name.
std::optional<Target> parse_target(std::string_view name);

/// Whether code for `target` runs on the chip: `sm_90` on 9.0 and everything later, `sm_100f` on 10.x from 10.0 on,
/// `sm_100a` on 10.0 alone.
bool runs_on(const Target& target, const machine::Architecture& architecture);

/// The PTX made most closely for the chip: exact before family before generic, then the highest. Throws Error of kind
/// `no_suitable_image`, which says what was found and how to build.
const Entry& choose_ptx(const std::vector<Entry>& entries, const machine::Architecture& architecture);

/// What its PTX was made for, in the order of the entries.
std::vector<Target> ptx_targets(const std::vector<Entry>& entries);

/// The chip for a program whose user has not chosen one, from the targets of the PTX in each of its images (an empty
/// list for an image without PTX). It is the B200, unless the B200 would leave out what the H200 runs: an image has PTX
/// for the H200 only, and no image has PTX for the B200 only.
const machine::Architecture& choose_chip(std::span<const std::vector<Target>> images);

/// How to choose another emulated chip that runs one of the targets: "run it on ...". Empty when there is none.
std::string advise_other_chip(std::span<const Target> targets, const machine::Architecture& architecture);

/// The option of nvcc that makes a program run on the chip: -gencode "arch=...,code=[...]".
std::string gencode_option(const machine::Architecture& architecture);

/// Machine code for the chip itself, or null.
const Entry* choose_elf(const std::vector<Entry>& entries, const machine::Architecture& architecture);

}  // namespace stagecraft::emulator::fatbin
