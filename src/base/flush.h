// The end of a process that does not end by exit(): what it does before must not keep it, as others wait for that end.
#pragma once

#include <functional>

namespace backstay {

/// Calls `what` on a thread of its own and waits for it for two seconds at most. A file or a pipe may never be ready,
/// or locked by a thread of the program that waits there. Where no thread can be started it is called by this one. What
/// it uses must be its own: it may still run when this returns.
void call_in_time(const std::function<void()>& what);

/// What the C library still holds for its files is written, that of stdout first, as far as that can be done in time.
/// Where a thread of the program has the lock of a file, as in fgets(), others may stay unwritten: those that fflush()
/// comes to after it. Where no thread can be started nothing is written. Never fails.
void flush_all_files();

}  // namespace backstay
