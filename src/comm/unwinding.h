// Whether an exception can get out of where the program is.
#pragma once

namespace backstay::comm {

/// An exception that is thrown here would end the process before it came to the function in whose frame `limit` lies:
/// a function on the way to it is `noexcept`, as destructors are. Found in the tables that the unwinder itself reads
/// (Itanium C++ ABI, "Exception Handling"), of code by GCC; those of Clang do not tell. False where nothing is known.
bool ends_at_noexcept(const void* limit);

}  // namespace backstay::comm
