// How a fragment goes to sleep, and how it is woken.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Puts a fragment to sleep; the handler then returns Outcome::blocked.
void sleep(Fragment& fragment, Wait wait);
/// Does the same as `sleep`, but wakes the fragment with `timed_out` set after `limit` cycles: for polls that give up.
void sleep_at_most(Fragment& fragment, Wait wait, Cycle limit);
/// Ends a sleep whose limit has come. Called by the scheduler.
void end_sleep(Fragment& fragment);

/// Makes a blocked fragment ready at its cluster's present time. The instruction it sleeps in is executed again.
void wake(Fragment& fragment);
/// Does the same as `wake`, but the instruction is done: the fragment goes on with the next one.
void resume_after(Fragment& fragment);
/// Wakes all fragments that wait for tensor memory of a multiprocessor, in the order in which they began to wait,
/// because some of it becomes free at time `at`. They may belong to other clusters, and each asks again.
void wake_for_tensor_memory(Sm& sm, Cycle at);

}  // namespace stagecraft::emulator::machine
