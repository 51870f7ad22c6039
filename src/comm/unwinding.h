// Whether an exception can get out of where the program is.
#pragma once

namespace backstay::comm {

/// An exception that is thrown here would end the process before it came to the function in whose frame `limit` lies:
/// a function on the way to it is `noexcept`, as destructors are. Found in the tables that the unwinder itself reads
/// (Itanium C++ ABI, "Exception Handling"). These tell it of code by GCC where nothing inside that function, around the
/// call, catches or cleans up; of other code, and by Clang, they do not: false, as where nothing is known.
bool ends_at_noexcept(const void* limit);

}  // namespace backstay::comm
