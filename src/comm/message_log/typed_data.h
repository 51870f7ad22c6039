// Elements of an MPI datatype in memory, and the same packed densely.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"

namespace backstay::comm {

/// `count` elements at `at`, which may be MPI_BOTTOM. Owned by nobody here.
struct TypedData {
  void* at = nullptr;
  std::int64_t count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::shared_ptr<const void> keeps_type = nullptr;  ///< see keep_type()

  [[nodiscard]] std::int64_t bytes() const;  ///< packed
};

/// The packed size of `count` elements; 0 for no type.
std::int64_t bytes_of(std::int64_t count, MPI_Datatype type);
/// `base`, displaced by `elements` of `type`.
void* displaced(void* base, std::int64_t elements, MPI_Datatype type);
/// The same data with a type of its own: the program may free its one.
TypedData keep_type(TypedData data);

/// The first to.size() packed bytes of `from`, which may end inside an element. Local, as is unpack().
Result<void> pack(const TypedData& from, MutableByteView to);
/// Puts packed bytes back; what lies behind them, and between elements, is not changed.
Result<void> unpack(ByteView from, const TypedData& to);

}  // namespace backstay::comm
