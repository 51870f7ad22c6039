#include "comm/message_log/typed_data.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "comm/mpi_operation.h"

namespace backstay::comm {

namespace {
constexpr std::int64_t largest_packed_at_once = std::int64_t{1} << 28;  // bytes; MPI_Pack counts in int

bool is_predefined(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  return combiner == MPI_COMBINER_NAMED;
}

MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  return extent;
}

/// Packed as it lies in memory.
bool is_dense(MPI_Datatype type) { return is_predefined(type) && extent_of(type) == bytes_of(1, type); }

Result<void> pack_elements(const TypedData& from, std::int64_t first, std::int64_t count, MutableByteView to) {
  int position = 0;
  return check(PMPI_Pack(displaced(from.at, first, from.type), static_cast<int>(count), from.type, to.data(),
                         static_cast<int>(to.size()), &position, MPI_COMM_SELF));
}

Result<void> unpack_elements(ByteView from, const TypedData& to, std::int64_t first, std::int64_t count) {
  int position = 0;
  return check(PMPI_Unpack(from.data(), static_cast<int>(from.size()), &position, displaced(to.at, first, to.type),
                           static_cast<int>(count), to.type, MPI_COMM_SELF));
}

/// Calls act(first, count, offset of the packed bytes) for elements that are whole in `size` bytes, in pieces.
template <class Act>
Result<void> in_pieces(std::int64_t size, std::int64_t element, const Act& act) {
  const std::int64_t whole = size / element;
  const std::int64_t piece = std::max<std::int64_t>(1, largest_packed_at_once / element);
  for (std::int64_t first = 0; first < whole; first += piece)
    BACKSTAY_TRY(act(first, std::min(piece, whole - first), first * element));
  return {};
}

Result<void> check_element(std::int64_t element) {
  if (element > 0 && element <= INT_MAX) return {};
  return fail(Code::invalid_argument, "one element of an MPI datatype has ", element, " bytes, more than MPI can pack");
}
}  // namespace

std::int64_t bytes_of(std::int64_t count, MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return 0;
  MPI_Count size = 0;
  PMPI_Type_size_x(type, &size);
  return count * size;
}

std::int64_t TypedData::bytes() const { return bytes_of(count, type); }

void* displaced(void* base, std::int64_t elements, MPI_Datatype type) {
  if (elements == 0) return base;
  return reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(base) + elements * extent_of(type));
}

TypedData keep_type(TypedData data) {
  if (data.type == MPI_DATATYPE_NULL || is_predefined(data.type)) return data;
  MPI_Datatype own = MPI_DATATYPE_NULL;
  PMPI_Type_dup(data.type, &own);
  data.type = own;
  data.keeps_type = std::shared_ptr<const MPI_Datatype>(new MPI_Datatype(own), [](const MPI_Datatype* held) {
    MPI_Datatype type = *held;
    delete held;
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized == 0) PMPI_Type_free(&type);
  });
  return data;
}

Result<void> pack(const TypedData& from, MutableByteView to) {
  if (to.empty()) return {};
  if (is_dense(from.type)) {
    std::memcpy(to.data(), from.at, to.size());
    return {};
  }
  const auto element = bytes_of(1, from.type);
  const auto size = static_cast<std::int64_t>(to.size());
  BACKSTAY_TRY(check_element(element));
  BACKSTAY_TRY(in_pieces(size, element, [&](std::int64_t first, std::int64_t count, std::int64_t offset) {
    return pack_elements(from, first, count, to.subspan(offset, count * element));
  }));
  if (size % element == 0) return {};
  Bytes last(element);
  BACKSTAY_TRY(pack_elements(from, size / element, 1, last));
  std::copy_n(last.begin(), size % element, to.end() - size % element);
  return {};
}

Result<void> unpack(ByteView from, const TypedData& to) {
  if (from.empty()) return {};
  if (is_dense(to.type)) {
    std::memcpy(to.at, from.data(), from.size());
    return {};
  }
  const auto element = bytes_of(1, to.type);
  const auto size = static_cast<std::int64_t>(from.size());
  BACKSTAY_TRY(check_element(element));
  BACKSTAY_TRY(in_pieces(size, element, [&](std::int64_t first, std::int64_t count, std::int64_t offset) {
    return unpack_elements(from.subspan(offset, count * element), to, first, count);
  }));
  if (size % element == 0) return {};
  Bytes last(element);
  BACKSTAY_TRY(pack_elements(to, size / element, 1, last));
  std::copy_n(from.end() - size % element, size % element, last.begin());
  return unpack_elements(last, to, size / element, 1);
}

}  // namespace backstay::comm
