// A timeline in the trace-event format, which ui.perfetto.dev and chrome://tracing open.
#pragma once

#include <string>

#include "emulator/trace/timeline_run.hpp"

namespace stagecraft::emulator::trace {

/// A JSON text: a process for each block, a thread for each warp, named by its role, and for each unit; the barriers as
/// counters; an arrow from what ended the phase of a barrier to each wait for it. A microsecond of the trace is a cycle
/// of virtual time. Source: "Trace Event Format" (Google, the document that chrome://tracing links).
std::string trace_events(const Run& run);

}  // namespace stagecraft::emulator::trace
