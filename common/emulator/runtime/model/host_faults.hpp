// Code of the host that follows a device pointer gets the signal that it would get with a chip, and an explanation.
#pragma once

namespace stagecraft::emulator::runtime {

/// Reports, from now on, each access of the host's code to device memory, or to freed managed or pinned memory, that
/// ends in SIGSEGV. Then the signal takes its usual course: a handler that the program has installed before runs, and
/// one that it installs later replaces this one.
void explain_host_faults();

}  // namespace stagecraft::emulator::runtime
