// The status that the process ends with, where a session that cannot throw any more has found that its result is wrong,
// or that its last checkpoint was not written.
#pragma once

namespace backstay::api {

/// Called by each session when it is opened: from then on fail_at_exit() has an effect, and `backstay run` hears of
/// another status than 0, which it may not hear of from its launcher.
void watch_the_exit();
/// Where this process, not one that it forks, would end with status 0, or as MPI_Finalize lasts for too long, it ends
/// with 1.
void fail_at_exit();
/// The test has seen it.
bool take_back_failure();

}  // namespace backstay::api
