// How a fragment sleeps, and who wakes it.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Puts a fragment to sleep; the handler then returns Outcome::blocked.
void sleep(Fragment& fragment, Wait wait);
/// As `sleep`, but wakes with `timed_out` set after `limit` cycles: for polls that may give up.
void sleep_at_most(Fragment& fragment, Wait wait, Cycle limit);
/// Ends a sleep whose limit has come. Called by the scheduler.
void end_sleep(Fragment& fragment);

/// Makes a blocked fragment ready at its cluster's present time. The instruction it sleeps in is executed again.
void wake(Fragment& fragment);
/// As `wake`, but the instruction is done: the fragment goes on with the next one.
void resume_after(Fragment& fragment);
/// Wakes all fragments that wait for tensor memory of a multiprocessor, in the order in which they began to wait, when
/// some of it becomes free at time `at`. They may belong to other clusters, and ask again.
void wake_for_tensor_memory(Sm& sm, Cycle at);

}  // namespace stagecraft::emulator::machine
