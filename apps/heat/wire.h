// The messages of the set-up, in a communicator of its own, and how many bytes of them came in.
#pragma once

#include <mpi.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "../mpi_check.h"

namespace heat {

using program::check_mpi;

template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<T, int>) return MPI_INT;
  if constexpr (std::is_same_v<T, std::int64_t>) return MPI_INT64_T;
  static_assert(std::is_same_v<T, double> || std::is_same_v<T, int> || std::is_same_v<T, std::int64_t>);
}

/// A length as MPI takes it.
inline int mpi_count(std::size_t n) {
  if (n > INT_MAX) throw std::length_error("a message of the set-up is too long for MPI: use more ranks");
  return static_cast<int>(n);
}

/// One list for each rank: to send to it, or received from it.
template <class T>
using Lists = std::vector<std::vector<T>>;

/// All members are collective. Messages are matched by source and tag, never by who comes first, so what a rank
/// receives does not depend on timing.
class Wire {
 public:
  /// Duplicates `comm`: messages of the set-up cannot meet the caller's.
  explicit Wire(MPI_Comm comm);
  /// Frees the communicator. Not in a destructor: while an exception of a lost rank passes, MPI cannot be called.
  void close();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Bytes that MPI has put into this rank's buffers so far.
  [[nodiscard]] std::size_t received() const { return received_; }

  /// Few and short lists, from neighbours: the lengths by MPI_Alltoall, the lists by messages between those concerned.
  template <class T>
  Lists<T> exchange(const Lists<T>& to);
  /// Lists for about everybody, by MPI_Alltoallv.
  template <class T>
  Lists<T> deal(const Lists<T>& to);
  /// Of all ranks, in their order.
  template <class T>
  std::vector<T> gather(T mine);
  template <class T>
  std::vector<T> gather_lists(const std::vector<T>& mine);
  template <class T>
  T maximum(T mine);
  /// The sum over all ranks before this one.
  std::int64_t sum_before(std::int64_t mine);

 private:
  template <class T>
  Lists<T> with_room(const Lists<T>& to);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::size_t received_ = 0;
};

template <class T>
Lists<T> Wire::with_room(const Lists<T>& to) {
  std::vector<int> out(to.size()), in(to.size());
  for (std::size_t r = 0; r < to.size(); ++r) out[r] = mpi_count(to[r].size());
  check_mpi(MPI_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, comm_), "MPI_Alltoall");
  received_ += in.size() * sizeof(int);
  Lists<T> room(to.size());
  for (std::size_t r = 0; r < to.size(); ++r) room[r].resize(static_cast<std::size_t>(in[r]));
  return room;
}

template <class T>
Lists<T> Wire::exchange(const Lists<T>& to) {
  Lists<T> from = with_room(to);
  std::vector<MPI_Request> requests;
  for (int r = 0; r < size_; ++r) {
    auto& list = from[static_cast<std::size_t>(r)];
    if (r == rank_ || list.empty()) continue;
    received_ += list.size() * sizeof(T);
    check_mpi(MPI_Irecv(list.data(), mpi_count(list.size()), mpi_type<T>(), r, 0, comm_, &requests.emplace_back()),
              "MPI_Irecv");
  }
  for (int r = 0; r < size_; ++r) {
    const auto& list = to[static_cast<std::size_t>(r)];
    if (r == rank_ || list.empty()) continue;
    check_mpi(MPI_Isend(list.data(), mpi_count(list.size()), mpi_type<T>(), r, 0, comm_, &requests.emplace_back()),
              "MPI_Isend");
  }
  from[static_cast<std::size_t>(rank_)] = to[static_cast<std::size_t>(rank_)];
  check_mpi(MPI_Waitall(mpi_count(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  return from;
}

template <class T>
Lists<T> Wire::deal(const Lists<T>& to) {
  Lists<T> from = with_room(to);
  std::vector<int> out_counts, out_starts, in_counts, in_starts;
  std::vector<T> out;
  std::size_t in_total = 0;
  for (std::size_t r = 0; r < to.size(); ++r) {
    out_starts.push_back(mpi_count(out.size()));
    out_counts.push_back(mpi_count(to[r].size()));
    out.insert(out.end(), to[r].begin(), to[r].end());
    in_starts.push_back(mpi_count(in_total));
    in_counts.push_back(mpi_count(from[r].size()));
    in_total += from[r].size();
  }
  std::vector<T> in(in_total);
  check_mpi(MPI_Alltoallv(out.data(), out_counts.data(), out_starts.data(), mpi_type<T>(), in.data(), in_counts.data(),
                          in_starts.data(), mpi_type<T>(), comm_),
            "MPI_Alltoallv");
  received_ += in_total * sizeof(T);
  for (std::size_t r = 0; r < to.size(); ++r) {
    const auto begin = in.begin() + in_starts[r];
    from[r].assign(begin, begin + in_counts[r]);
  }
  return from;
}

template <class T>
std::vector<T> Wire::gather(T mine) {
  std::vector<T> all(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&mine, 1, mpi_type<T>(), all.data(), 1, mpi_type<T>(), comm_), "MPI_Allgather");
  received_ += all.size() * sizeof(T);
  return all;
}

template <class T>
std::vector<T> Wire::gather_lists(const std::vector<T>& mine) {
  const std::vector<int> counts = gather(mpi_count(mine.size()));
  std::vector<int> starts;
  std::size_t total = 0;
  for (int count : counts) {
    starts.push_back(mpi_count(total));
    total += static_cast<std::size_t>(count);
  }
  std::vector<T> all(total);
  check_mpi(MPI_Allgatherv(mine.data(), mpi_count(mine.size()), mpi_type<T>(), all.data(), counts.data(), starts.data(),
                           mpi_type<T>(), comm_),
            "MPI_Allgatherv");
  received_ += total * sizeof(T);
  return all;
}

template <class T>
T Wire::maximum(T mine) {
  T all = mine;
  check_mpi(MPI_Allreduce(&mine, &all, 1, mpi_type<T>(), MPI_MAX, comm_), "MPI_Allreduce");
  received_ += sizeof(all);
  return all;
}

}  // namespace heat
