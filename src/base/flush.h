// The end of a process that does not end by exit().
#pragma once

namespace backstay {

/// What the C library still holds for its files is written. A thread of the program that waits for its input in
/// fgets(stdin) or the like has the lock of stdin meanwhile, for which fflush(nullptr) would wait: it is stdout alone
/// then. Never fails.
void flush_all_files();

}  // namespace backstay
