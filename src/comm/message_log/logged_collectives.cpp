// Collective operations, under the names of MPI's functions (see logged_call.h). Each is described once: what it
// writes, and what must be the same in a replay. MPI's functions are made from that.
#include <mpi.h>

#include <utility>

#include "comm/message_log/phase.h"
#include "comm/open_requests.h"

namespace backstay::comm::message_log {
namespace {

struct Shape {
  int root = -1;          ///< -1: none
  std::int64_t sent = 0;  ///< packed bytes
  std::vector<TypedData> written = {};
};

constexpr const char* shape_words = "with root %, % bytes sent, % bytes received,";

Call call_of(const char* name, MPI_Comm comm, const Shape& shape, Use use) {
  std::int64_t received = 0;
  for (const auto& data : shape.written) received += data.bytes();
  return {name, comm, shape_words, {shape.root, shape.sent, received}, use};
}

using Describe = std::function<Shape()>;

int collective(const char* name, MPI_Comm comm, const Describe& describe, const Real& real) {
  const Way way = way_of(comm, Use::communicates, name);
  if (way == Way::pass) return real();
  const Shape shape = way == Way::refuse ? Shape{} : describe();
  return carry_out(way, call_of(name, comm, shape, Use::communicates), real, [&](Flow& flow) {
    for (const auto& data : shape.written) flow.data(data);
  });
}

int start_collective(const char* name, MPI_Comm comm, const Describe& describe, MPI_Request* request,
                     const Real& real) {
  const Way way = way_of(comm, Use::starts, name);
  if (way == Way::pass) return real();
  Shape shape = way == Way::refuse ? Shape{} : describe();
  const Call call = call_of(name, comm, shape, Use::starts);
  return carry_out(way, call, real,
                   [&](Flow& flow) { started(flow, request, {.name = name, .written = std::move(shape.written)}); });
}

std::int64_t sum(const int counts[], int size, MPI_Datatype type) {
  std::int64_t elements = 0;
  for (int i = 0; i < size; ++i) elements += counts[i];
  return bytes_of(elements, type);
}

/// What `size` ranks send, each its own.
std::vector<TypedData> parts(void* to, const int counts[], const int places[], MPI_Datatype type, int size) {
  std::vector<TypedData> all;
  for (int i = 0; i < size; ++i)
    if (counts[i] != 0) all.push_back({displaced(to, places[i], type), counts[i], type});
  return all;
}

/// The same with a type for each, and places in bytes.
template <class Place>
std::vector<TypedData> parts_in_bytes(void* to, const int counts[], const Place places[], const MPI_Datatype types[],
                                      int size) {
  std::vector<TypedData> all;
  for (int i = 0; i < size; ++i)
    if (counts[i] != 0)
      all.push_back({displaced(to, static_cast<std::int64_t>(places[i]), MPI_BYTE), counts[i], types[i]});
  return all;
}

/// Without what nobody sends: at the border of a grid.
template <class Parts>
std::vector<TypedData> from_neighbours(MPI_Comm comm, const Parts& part) {
  std::vector<TypedData> all;
  const auto& sources = sources_in(comm);
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i] != MPI_PROC_NULL) all.push_back(part(static_cast<std::int64_t>(i)));
  return all;
}

Shape bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const bool sends = rank_in(comm) == root;
  return {root, sends ? bytes_of(count, type) : 0,
          sends ? std::vector<TypedData>{} : std::vector<TypedData>{{buffer, count, type}}};
}

/// What this rank sends in a collective of many to one.
std::int64_t own_part(const void* from, std::int64_t count, MPI_Datatype type) {
  return from == MPI_IN_PLACE ? 0 : bytes_of(count, type);
}

Shape gather(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type, int root,
             MPI_Comm comm) {
  Shape shape{root, own_part(from, count, type)};
  if (rank_in(comm) == root) shape.written = {{to, std::int64_t{to_count} * size_of(comm), to_type}};
  return shape;
}

Shape gatherv(const void* from, int count, MPI_Datatype type, void* to, const int to_counts[], const int places[],
              MPI_Datatype to_type, int root, MPI_Comm comm) {
  Shape shape{root, own_part(from, count, type)};
  if (rank_in(comm) == root) shape.written = parts(to, to_counts, places, to_type, size_of(comm));
  return shape;
}

Shape scatter(const void*, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type, int root,
              MPI_Comm comm) {
  Shape shape{root, rank_in(comm) == root ? bytes_of(std::int64_t{count} * size_of(comm), type) : 0};
  if (to != MPI_IN_PLACE) shape.written = {{to, to_count, to_type}};
  return shape;
}

Shape scatterv(const void*, const int counts[], const int[], MPI_Datatype type, void* to, int to_count,
               MPI_Datatype to_type, int root, MPI_Comm comm) {
  Shape shape{root, rank_in(comm) == root ? sum(counts, size_of(comm), type) : 0};
  if (to != MPI_IN_PLACE) shape.written = {{to, to_count, to_type}};
  return shape;
}

Shape allgather(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
                MPI_Comm comm) {
  return {-1, own_part(from, count, type), {{to, std::int64_t{to_count} * size_of(comm), to_type}}};
}

Shape allgatherv(const void* from, int count, MPI_Datatype type, void* to, const int to_counts[], const int places[],
                 MPI_Datatype to_type, MPI_Comm comm) {
  return {-1, own_part(from, count, type), parts(to, to_counts, places, to_type, size_of(comm))};
}

Shape alltoall(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
               MPI_Comm comm) {
  return {-1,
          own_part(from, std::int64_t{count} * size_of(comm), type),
          {{to, std::int64_t{to_count} * size_of(comm), to_type}}};
}

Shape alltoallv(const void* from, const int counts[], const int[], MPI_Datatype type, void* to, const int to_counts[],
                const int places[], MPI_Datatype to_type, MPI_Comm comm) {
  const int size = size_of(comm);
  return {-1, from == MPI_IN_PLACE ? 0 : sum(counts, size, type), parts(to, to_counts, places, to_type, size)};
}

Shape alltoallw(const void* from, const int counts[], const int[], const MPI_Datatype types[], void* to,
                const int to_counts[], const int places[], const MPI_Datatype to_types[], MPI_Comm comm) {
  const int size = size_of(comm);
  Shape shape{-1, 0, parts_in_bytes(to, to_counts, places, to_types, size)};
  for (int i = 0; i < size && from != MPI_IN_PLACE; ++i) shape.sent += bytes_of(counts[i], types[i]);
  return shape;
}

Shape reduce(const void*, void* to, int count, MPI_Datatype type, MPI_Op, int root, MPI_Comm comm) {
  Shape shape{root, bytes_of(count, type)};
  if (rank_in(comm) == root) shape.written = {{to, count, type}};
  return shape;
}

Shape allreduce(const void*, void* to, int count, MPI_Datatype type, MPI_Op, MPI_Comm) {
  return {-1, bytes_of(count, type), {{to, count, type}}};
}

Shape reduce_scatter(const void*, void* to, const int counts[], MPI_Datatype type, MPI_Op, MPI_Comm comm) {
  return {-1, sum(counts, size_of(comm), type), {{to, counts[rank_in(comm)], type}}};
}

Shape reduce_scatter_block(const void*, void* to, int count, MPI_Datatype type, MPI_Op, MPI_Comm comm) {
  return {-1, bytes_of(std::int64_t{count} * size_of(comm), type), {{to, count, type}}};
}

Shape scan(const void*, void* to, int count, MPI_Datatype type, MPI_Op, MPI_Comm) {
  return {-1, bytes_of(count, type), {{to, count, type}}};
}

/// Rank 0 receives nothing.
Shape exscan(const void*, void* to, int count, MPI_Datatype type, MPI_Op, MPI_Comm comm) {
  Shape shape{-1, bytes_of(count, type)};
  if (rank_in(comm) > 0) shape.written = {{to, count, type}};
  return shape;
}

Shape neighbor_allgather(const void*, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
                         MPI_Comm comm) {
  return {-1, bytes_of(count, type), from_neighbours(comm, [&](std::int64_t i) {
            return TypedData{displaced(to, i * to_count, to_type), to_count, to_type};
          })};
}

Shape neighbor_allgatherv(const void*, int count, MPI_Datatype type, void* to, const int to_counts[],
                          const int places[], MPI_Datatype to_type, MPI_Comm comm) {
  return {-1, bytes_of(count, type), from_neighbours(comm, [&](std::int64_t i) {
            return TypedData{displaced(to, places[i], to_type), to_counts[i], to_type};
          })};
}

Shape neighbor_alltoall(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
                        MPI_Comm comm) {
  Shape shape = neighbor_allgather(from, count, type, to, to_count, to_type, comm);
  shape.sent *= target_count_in(comm);
  return shape;
}

Shape neighbor_alltoallv(const void*, const int counts[], const int[], MPI_Datatype type, void* to,
                         const int to_counts[], const int places[], MPI_Datatype to_type, MPI_Comm comm) {
  return {-1, sum(counts, target_count_in(comm), type), from_neighbours(comm, [&](std::int64_t i) {
            return TypedData{displaced(to, places[i], to_type), to_counts[i], to_type};
          })};
}

Shape neighbor_alltoallw(const void*, const int counts[], const MPI_Aint[], const MPI_Datatype types[], void* to,
                         const int to_counts[], const MPI_Aint places[], const MPI_Datatype to_types[], MPI_Comm comm) {
  Shape shape{-1, 0, from_neighbours(comm, [&](std::int64_t i) {
                return TypedData{displaced(to, places[i], MPI_BYTE), to_counts[i], to_types[i]};
              })};
  for (int i = 0; i < target_count_in(comm); ++i) shape.sent += bytes_of(counts[i], types[i]);
  return shape;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int MPI_Barrier(MPI_Comm comm) {
  if (quiet()) return PMPI_Barrier(comm);
  return collective("MPI_Barrier", comm, [] { return Shape(); }, [&] { return PMPI_Barrier(comm); });
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  if (quiet()) return PMPI_Ibarrier(comm, request);
  return start_collective(
      "MPI_Ibarrier", comm, [] { return Shape(); }, request, [&] { return PMPI_Ibarrier(comm, request); });
}

using N = int;
using D = int;
#define UNPACKED(...) __VA_ARGS__
#define COLLECTIVE(Name, name, parameters, arguments)                                                                \
  int MPI_##Name(UNPACKED parameters, MPI_Comm comm) {                                                               \
    if (quiet()) return PMPI_##Name(UNPACKED arguments, comm);                                                       \
    return collective(                                                                                               \
        "MPI_" #Name, comm, [&] { return name(UNPACKED arguments, comm); },                                          \
        [&] { return PMPI_##Name(UNPACKED arguments, comm); });                                                      \
  }                                                                                                                  \
  int MPI_I##name(UNPACKED parameters, MPI_Comm comm, MPI_Request* request) {                                        \
    const auto real = [&] { return OpenRequests::begun(PMPI_I##name(UNPACKED arguments, comm, request), request); }; \
    if (quiet()) return real();                                                                                      \
    return start_collective("MPI_I" #name, comm, [&] { return name(UNPACKED arguments, comm); }, request, real);     \
  }
#include "comm/message_log/collectives.inc"
#undef COLLECTIVE
#undef UNPACKED

#pragma GCC visibility pop
}

}  // namespace backstay::comm::message_log
