// The status that the process ends with, where a session that cannot throw any more has found that its result is wrong.
#pragma once

namespace backstay::api {

/// Called by each session when it is opened: behind it exit() ends with status 1 if it is told to.
void watch_the_exit();
/// The process ends with status 1, whatever it says itself.
void fail_at_exit();
/// The test has seen it.
bool take_back_failure();

}  // namespace backstay::api
