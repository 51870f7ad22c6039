// A phase of a program that makes nearly every call that a message log covers, with data that differ each time it runs.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

namespace backstay::mpi_test {

/// Runs once; what it was given by MPI is in sum().
class LoggedPhase {
 public:
  /// Groups need as many processes in MPI_COMM_WORLD as `comm` has in the recording.
  LoggedPhase(MPI_Comm comm, bool asks_for_groups) : comm_(comm), asks_for_groups_(asks_for_groups) {
    MPI_Comm_size(comm, &size_);
    MPI_Comm_rank(comm, &rank_);
    right_ = (rank_ + 1) % size_;
    left_ = (rank_ + size_ - 1) % size_;
    note(size_);
    note(rank_);
  }

  void run() {
    messages();
    kinds_of_sends();
    from_anybody();
    probes();
    types();
    persistent();
    completions();
    collectives();
    nonblocking_collectives();
    communicators();
    if (asks_for_groups_) groups();
    grids();
    graphs();
    queries();
  }

  [[nodiscard]] std::uint64_t sum() const { return sum_; }

 private:
  void note(std::int64_t n) { sum_ = (sum_ ^ static_cast<std::uint64_t>(n)) * 1099511628211u; }
  void note(const std::vector<int>& all) {
    for (const int n : all) note(n);
  }
  void note(const MPI_Status& status, MPI_Datatype type) {
    int count = 0, elements = 0;
    MPI_Get_count(&status, type, &count);
    MPI_Get_elements(&status, type, &elements);
    for (const int n : {status.MPI_SOURCE, status.MPI_TAG, count, elements}) note(n);
  }
  int any(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  /// What is sent is random, so that only a log can know it; the same number of values each time.
  std::vector<int> values(int count) {
    std::vector<int> all(count);
    for (int& n : all) n = any(1 << 30);
    return all;
  }

  void messages() {
    MPI_Status status;
    auto length = values(1);  // how much comes is random, too
    MPI_Sendrecv_replace(length.data(), 1, MPI_INT, right_, 3, left_, 3, comm_, &status);
    note(length);
    note(status, MPI_INT);
    std::vector<int> in(100, -1);
    const auto out = values(50);
    MPI_Sendrecv(out.data(), 50, MPI_INT, right_, 4, in.data(), 100, MPI_INT, left_, MPI_ANY_TAG, comm_, &status);
    note(in);
    note(status, MPI_INT);
    MPI_Sendrecv(out.data(), 0, MPI_INT, right_, 5, in.data(), 100, MPI_INT, left_, 5, comm_, MPI_STATUS_IGNORE);
    note(in);
    MPI_Recv(in.data(), 10, MPI_INT, MPI_PROC_NULL, 5, comm_, &status);
    note(status, MPI_INT);
    MPI_Send(in.data(), 10, MPI_INT, MPI_PROC_NULL, 5, comm_);
    MPI_Request requests[2];
    MPI_Irecv(in.data(), 10, MPI_INT, MPI_PROC_NULL, 5, comm_, &requests[0]);
    MPI_Isend(in.data(), 10, MPI_INT, MPI_PROC_NULL, 5, comm_, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    note(requests[0] == MPI_REQUEST_NULL);
    // The program talks to itself.
    MPI_Sendrecv(out.data(), 5, MPI_INT, 0, 1, in.data(), 5, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    note(in);
  }

  void kinds_of_sends() {
    std::vector<char> buffer(10000);
    MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
    using Send = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm);
    for (const Send send : {Send(MPI_Send), Send(MPI_Ssend), Send(MPI_Bsend), Send(MPI_Rsend)}) {
      MPI_Request request;
      std::vector<int> in(20);
      MPI_Irecv(in.data(), 20, MPI_INT, left_, 6, comm_, &request);
      MPI_Barrier(comm_);
      send(values(20).data(), 20, MPI_INT, right_, 6, comm_);
      MPI_Status status;
      MPI_Wait(&request, &status);
      note(in);
      note(status, MPI_INT);
    }
    using Start = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
    for (const Start start : {Start(MPI_Isend), Start(MPI_Issend), Start(MPI_Ibsend), Start(MPI_Irsend)}) {
      MPI_Request requests[2];
      std::vector<int> in(20);
      const auto out = values(20);
      MPI_Irecv(in.data(), 20, MPI_INT, left_, 7, comm_, &requests[0]);
      MPI_Barrier(comm_);
      start(out.data(), 20, MPI_INT, right_, 7, comm_, &requests[1]);
      MPI_Status statuses[2];
      MPI_Waitall(2, requests, statuses);
      note(in);
      note(statuses[0], MPI_INT);
    }
    void* detached = nullptr;
    int detached_size = 0;
    MPI_Buffer_detach(&detached, &detached_size);
  }

  void from_anybody() {
    MPI_Request request;
    const auto out = values(3);
    MPI_Isend(out.data(), 3, MPI_INT, 0, 100 + rank_, comm_, &request);
    for (int i = 0; rank_ == 0 && i < size_; ++i) {
      MPI_Status status;
      MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &status);
      note(status, MPI_INT);
      std::vector<int> in(3);
      MPI_Recv(in.data(), 3, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, comm_, &status);
      note(in);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(comm_);
  }

  void probes() {
    std::vector<int> in(4);
    MPI_Status status;
    MPI_Request requests[3];
    const auto out = values(4);
    for (int i = 0; i < 3; ++i) MPI_Isend(out.data(), 4, MPI_INT, right_, 8 + i, comm_, &requests[i]);
    int found = 0, polls = 0;
    for (; found == 0; ++polls) MPI_Iprobe(left_, 8, comm_, &found, &status);
    note(polls);
    note(status, MPI_INT);
    MPI_Recv(in.data(), 4, MPI_INT, left_, 8, comm_, &status);
    note(in);
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mprobe(left_, 9, comm_, &message, &status);
    MPI_Mrecv(in.data(), 4, MPI_INT, &message, &status);
    note(in);
    note(message == MPI_MESSAGE_NULL);
    for (found = 0; found == 0;) MPI_Improbe(left_, 10, comm_, &found, &message, &status);
    MPI_Request request;
    MPI_Imrecv(in.data(), 4, MPI_INT, &message, &request);
    MPI_Wait(&request, &status);
    note(in);
    note(status, MPI_INT);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Mprobe(MPI_PROC_NULL, 9, comm_, &message, &status);
    note(message == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(in.data(), 4, MPI_INT, &message, &status);
    note(status, MPI_INT);
  }

  void types() {
    MPI_Datatype column, pair, absolute;
    MPI_Type_vector(5, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    std::vector<int> in(20, 7);
    MPI_Status status;
    MPI_Sendrecv(values(5).data(), 5, MPI_INT, right_, 1, in.data(), 1, column, left_, 1, comm_, &status);
    note(in);
    note(status, column);
    // Part of an element, and the type is freed while the operation is under way.
    MPI_Type_contiguous(3, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Request request;
    MPI_Irecv(in.data(), 6, pair, left_, 2, comm_, &request);
    MPI_Send(values(7).data(), 7, MPI_INT, right_, 2, comm_);
    MPI_Type_free(&column);
    MPI_Wait(&request, &status);
    int elements = 0;
    MPI_Get_elements(&status, pair, &elements);
    note(elements);
    MPI_Type_free(&pair);
    note(in);
    MPI_Aint place = 0;
    int one = 0;
    MPI_Get_address(&one, &place);
    const int length = 1;
    MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Sendrecv(values(1).data(), 1, MPI_INT, right_, 3, MPI_BOTTOM, 1, absolute, left_, 3, comm_, &status);
    note(one);
    MPI_Type_free(&absolute);
    struct {
      double value;
      int where;
    } best{static_cast<double>(any(1000)), rank_}, found{0, 0};
    MPI_Allreduce(&best, &found, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm_);
    note(static_cast<std::int64_t>(found.value));
    note(found.where);
  }

  void persistent() {
    MPI_Request requests[2];
    std::vector<int> in(6), out(6);
    MPI_Recv_init(in.data(), 6, MPI_INT, left_, 11, comm_, &requests[0]);
    MPI_Send_init(out.data(), 6, MPI_INT, right_, 11, comm_, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);  // nothing to wait for
    for (int i = 0; i < 3; ++i) {
      std::ranges::copy(values(6), out.begin());
      if (i == 1) {
        MPI_Start(&requests[0]);
        MPI_Start(&requests[1]);
      } else {
        MPI_Startall(2, requests);
      }
      MPI_Status statuses[2];
      MPI_Waitall(2, requests, statuses);
      note(in);
      note(statuses[0], MPI_INT);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    note(requests[0] == MPI_REQUEST_NULL);
  }

  void completions() {
    constexpr int many = 4;
    for (int how = 0; how < 7; ++how) {
      std::vector<MPI_Request> requests(2 * many);
      std::vector<std::vector<int>> in(many, std::vector<int>(3));
      const auto out = values(3);
      for (int i = 0; i < many; ++i) MPI_Irecv(in[i].data(), 3, MPI_INT, left_, 20 + i, comm_, &requests[i]);
      for (int i = 0; i < many; ++i) MPI_Isend(out.data(), 3, MPI_INT, right_, 20 + i, comm_, &requests[many + i]);
      complete(how, requests);
      for (const auto& part : in) note(part);
      for (const MPI_Request request : requests) note(request == MPI_REQUEST_NULL);
    }
  }

  void complete(int how, std::vector<MPI_Request>& requests) {
    const int count = static_cast<int>(requests.size());
    std::vector<MPI_Status> statuses(count);
    std::vector<int> indices(count);
    int flag = 0, done = 0;
    if (how == 0)
      for (auto& request : requests)
        for (flag = 0; flag == 0;) MPI_Test(&request, &flag, statuses.data());
    if (how == 1)
      while (flag == 0) MPI_Testall(count, requests.data(), &flag, MPI_STATUSES_IGNORE);
    for (int i = 0; how == 2 && i < count; ++i) {
      MPI_Waitany(count, requests.data(), &done, statuses.data());
      note(done);
    }
    while (how == 3 && done != MPI_UNDEFINED) {
      MPI_Waitsome(count, requests.data(), &done, indices.data(), statuses.data());
      for (int i = 0; i < done; ++i) note(indices[i]);
    }
    while (how == 4 && (flag == 0 || done != MPI_UNDEFINED)) {
      MPI_Testany(count, requests.data(), &done, &flag, MPI_STATUS_IGNORE);
      note(done);
    }
    while (how == 5 && done != MPI_UNDEFINED) {
      MPI_Testsome(count, requests.data(), &done, indices.data(), statuses.data());
      for (int i = 0; i < done; ++i) note(statuses[i].MPI_TAG);
    }
    if (how != 6) return;
    for (auto& request : requests)
      for (flag = 0; flag == 0;) MPI_Request_get_status(request, &flag, statuses.data());
    MPI_Waitall(count, requests.data(), statuses.data());
    for (const auto& status : statuses) note(status.MPI_TAG);
  }

  /// `all` numbers of which each rank has `rank + 1`, one after the other with a gap of one.
  [[nodiscard]] std::vector<int> counts() const {
    std::vector<int> all(size_);
    std::iota(all.begin(), all.end(), 1);
    return all;
  }
  [[nodiscard]] std::vector<int> places() const {
    std::vector<int> all(size_);
    for (int i = 1; i < size_; ++i) all[i] = all[i - 1] + i + 1;
    return all;
  }

  void collectives() {
    const int root = size_ - 1, n = size_;
    std::vector<int> in(2 * n * n + 10, -3);
    const auto some = counts(), at = places();
    const std::vector<int> same(n, 2), evenly = [&] {
      std::vector<int> all(n);
      for (int i = 0; i < n; ++i) all[i] = 2 * i;
      return all;
    }();
    const std::vector<MPI_Datatype> ints(n, MPI_INT);
    std::vector<int> in_bytes = evenly;
    for (int& place : in_bytes) place *= static_cast<int>(sizeof(int));
    auto out = values(4 * n + 10);
    const auto noted = [&](int) { note(in); };
    // What this rank itself broadcasts or contributes in place is not noted: it would differ.
    if (rank_ == root) in[0] = any(100);
    MPI_Bcast(in.data(), 3, MPI_INT, root, comm_);
    if (rank_ == root) in[0] = 1;
    note(in);
    noted(MPI_Gather(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, root, comm_));
    in.assign(in.size(), rank_);
    noted(MPI_Gather(rank_ == 0 ? MPI_IN_PLACE : out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, 0, comm_));
    noted(MPI_Gatherv(out.data(), rank_ + 1, MPI_INT, in.data(), some.data(), at.data(), MPI_INT, root, comm_));
    noted(MPI_Scatter(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, root, comm_));
    noted(MPI_Scatterv(out.data(), same.data(), evenly.data(), MPI_INT, in.data(), 2, MPI_INT, root, comm_));
    noted(MPI_Allgather(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, comm_));
    in.assign(in.size(), rank_);
    noted(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in.data(), 2, MPI_INT, comm_));
    noted(MPI_Allgatherv(out.data(), rank_ + 1, MPI_INT, in.data(), some.data(), at.data(), MPI_INT, comm_));
    noted(MPI_Alltoall(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, comm_));
    noted(MPI_Alltoallv(out.data(), same.data(), evenly.data(), MPI_INT, in.data(), same.data(), evenly.data(), MPI_INT,
                        comm_));
    noted(MPI_Alltoallw(out.data(), same.data(), in_bytes.data(), ints.data(), in.data(), same.data(), in_bytes.data(),
                        ints.data(), comm_));
    noted(MPI_Reduce(out.data(), in.data(), 5, MPI_INT, MPI_MAX, root, comm_));
    noted(MPI_Allreduce(out.data(), in.data(), 5, MPI_INT, MPI_MAX, comm_));
    noted(MPI_Allreduce(MPI_IN_PLACE, in.data(), 5, MPI_INT, MPI_BXOR, comm_));
    noted(MPI_Reduce_scatter(out.data(), in.data(), same.data(), MPI_INT, MPI_MAX, comm_));
    noted(MPI_Reduce_scatter_block(out.data(), in.data(), 2, MPI_INT, MPI_MAX, comm_));
    noted(MPI_Scan(out.data(), in.data(), 4, MPI_INT, MPI_MAX, comm_));
    noted(MPI_Exscan(out.data(), in.data(), 4, MPI_INT, MPI_MAX, comm_));
    noted(MPI_Barrier(comm_));
  }

  void nonblocking_collectives() {
    const int root = 0, n = size_;
    const auto some = counts(), at = places();
    const auto out = values(n * n + 10);
    const std::vector<int> ones(n, 1);
    std::vector<MPI_Request> requests;
    std::vector<std::vector<int>> in;
    in.reserve(20);
    const auto room = [&] { return in.emplace_back(std::vector<int>(n * n + 10, 1)).data(); };
    const auto next = [&] { return &requests.emplace_back(MPI_REQUEST_NULL); };
    requests.reserve(20);
    MPI_Ibarrier(comm_, next());
    MPI_Ibcast(room(), 2, MPI_INT, root, comm_, next());
    MPI_Igather(out.data(), 1, MPI_INT, room(), 1, MPI_INT, root, comm_, next());
    MPI_Igatherv(out.data(), rank_ + 1, MPI_INT, room(), some.data(), at.data(), MPI_INT, root, comm_, next());
    MPI_Iscatter(out.data(), 1, MPI_INT, room(), 1, MPI_INT, root, comm_, next());
    MPI_Iscatterv(out.data(), some.data(), at.data(), MPI_INT, room(), rank_ + 1, MPI_INT, root, comm_, next());
    MPI_Iallgather(out.data(), 1, MPI_INT, room(), 1, MPI_INT, comm_, next());
    MPI_Iallgatherv(out.data(), rank_ + 1, MPI_INT, room(), some.data(), at.data(), MPI_INT, comm_, next());
    MPI_Ialltoall(out.data(), 1, MPI_INT, room(), 1, MPI_INT, comm_, next());
    MPI_Ireduce(out.data(), room(), 3, MPI_INT, MPI_MAX, root, comm_, next());
    MPI_Iallreduce(out.data(), room(), 3, MPI_INT, MPI_MAX, comm_, next());
    MPI_Ireduce_scatter(out.data(), room(), ones.data(), MPI_INT, MPI_MAX, comm_, next());
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    requests.clear();
    MPI_Ireduce_scatter_block(out.data(), room(), 1, MPI_INT, MPI_MAX, comm_, next());
    MPI_Iscan(out.data(), room(), 3, MPI_INT, MPI_MAX, comm_, next());
    MPI_Iexscan(out.data(), room(), 3, MPI_INT, MPI_MAX, comm_, next());
    for (auto& request : requests) MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (const auto& part : in) note(part);
  }

  void talk_in(MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) return note(-1);
    int size = 0, rank = 0;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    note(size);
    note(rank);
    int mine = any(1 << 30), most = 0;
    MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, comm);
    note(most);
  }

  void communicators() {
    std::array<MPI_Comm, 5> made{};
    MPI_Comm_dup(comm_, &made[0]);
    MPI_Comm_dup_with_info(made[0], MPI_INFO_NULL, &made[1]);
    MPI_Comm_split(comm_, rank_ % 2, -rank_, &made[2]);
    MPI_Comm_split(comm_, rank_ == 0 ? MPI_UNDEFINED : 1, 0, &made[3]);
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &made[4]);
    for (MPI_Comm& comm : made) {
      talk_in(comm);
      if (comm != MPI_COMM_NULL && comm != made[0]) MPI_Comm_free(&comm);
    }
    MPI_Request request;
    MPI_Comm later = MPI_COMM_NULL, own = MPI_COMM_NULL;
    MPI_Comm_idup(comm_, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    talk_in(later);
    MPI_Comm_dup(MPI_COMM_SELF, &own);
    talk_in(own);
    MPI_Comm_free(&own);
    MPI_Comm_free(&later);
    MPI_Comm_free(&made[0]);
    note(made[0] == MPI_COMM_NULL);
  }

  void groups() {
    MPI_Group all, first, in_world;
    MPI_Comm_group(comm_, &all);
    int size = 0, rank = 0;
    MPI_Group_size(all, &size);
    MPI_Group_rank(all, &rank);
    note(size);
    note(rank);
    const int count = (size_ + 1) / 2;
    std::vector<int> ranks(count), translated(count);
    std::iota(ranks.begin(), ranks.end(), 0);
    MPI_Group_incl(all, count, ranks.data(), &first);
    MPI_Comm_group(MPI_COMM_WORLD, &in_world);
    MPI_Group_translate_ranks(first, count, ranks.data(), in_world, translated.data());
    note(translated);
    int same = 0;
    MPI_Group_compare(first, all, &same);
    note(same);
    MPI_Comm half = MPI_COMM_NULL, again = MPI_COMM_NULL;
    MPI_Comm_create(comm_, first, &half);
    talk_in(half);
    if (rank_ < count) MPI_Comm_create_group(comm_, first, 5, &again);
    talk_in(again);
    for (MPI_Comm* comm : {&half, &again})
      if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
    for (MPI_Group* group : {&all, &first, &in_world}) MPI_Group_free(group);
  }

  void grids() {
    MPI_Comm grid, row;
    int dims[2] = {0, 0}, coords[2], periods[2] = {0, 1}, from, to, topology = 0, directions = 0, rank = 0;
    MPI_Dims_create(size_, 2, dims);
    MPI_Cart_create(comm_, 2, dims, periods, 1, &grid);
    MPI_Topo_test(grid, &topology);
    MPI_Cartdim_get(grid, &directions);
    int my_rank = 0;
    MPI_Comm_rank(grid, &my_rank);
    MPI_Cart_coords(grid, my_rank, 2, coords);
    MPI_Cart_rank(grid, coords, &rank);
    MPI_Cart_shift(grid, 0, 1, &from, &to);
    note({topology, directions, coords[0], coords[1], rank, from, to});
    MPI_Cart_get(grid, 2, dims, periods, coords);
    note({dims[0], dims[1], periods[0], periods[1], coords[0], coords[1]});
    neighbours(grid, 4, 4);
    const int remain[2] = {0, 1};
    MPI_Cart_sub(grid, remain, &row);
    talk_in(row);
    neighbours(row, 2, 2);
    MPI_Comm_free(&row);
    MPI_Comm_free(&grid);
  }

  void neighbours(MPI_Comm comm, int in_count, int out_count) {
    const std::vector<int> in_counts(in_count, 2), out_counts(out_count, 2);
    std::vector<int> at(std::max(in_count, out_count));
    std::vector<MPI_Aint> in_bytes(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      at[i] = static_cast<int>(2 * i);
      in_bytes[i] = static_cast<MPI_Aint>(2 * i * sizeof(int));
    }
    const std::vector<MPI_Datatype> ints(at.size(), MPI_INT);
    const auto out = values(2 * out_count + 2);
    std::vector<int> in(2 * in_count + 2, 5);
    MPI_Neighbor_allgather(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, comm);
    note(in);
    MPI_Neighbor_allgatherv(out.data(), 2, MPI_INT, in.data(), in_counts.data(), at.data(), MPI_INT, comm);
    note(in);
    MPI_Neighbor_alltoall(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, comm);
    note(in);
    MPI_Neighbor_alltoallv(out.data(), out_counts.data(), at.data(), MPI_INT, in.data(), in_counts.data(), at.data(),
                           MPI_INT, comm);
    note(in);
    MPI_Neighbor_alltoallw(out.data(), out_counts.data(), in_bytes.data(), ints.data(), in.data(), in_counts.data(),
                           in_bytes.data(), ints.data(), comm);
    note(in);
    MPI_Request request;
    MPI_Ineighbor_allgather(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    note(in);
    MPI_Ineighbor_alltoall(out.data(), 2, MPI_INT, in.data(), 2, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    note(in);
  }

  void graphs() {
    MPI_Comm ring, graph, spread;
    MPI_Dist_graph_create_adjacent(comm_, 1, &left_, MPI_UNWEIGHTED, 1, &right_, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &ring);
    int in = 0, out = 0, weighted = 0, source = -1, target = -1;
    MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
    MPI_Dist_graph_neighbors(ring, 1, &source, MPI_UNWEIGHTED, 1, &target, MPI_UNWEIGHTED);
    note({in, out, weighted, source, target});
    neighbours(ring, 1, 1);
    const int degree = 1, weight = 3;
    MPI_Dist_graph_create(comm_, 1, &rank_, &degree, &right_, &weight, MPI_INFO_NULL, 0, &spread);
    int in_weight = 0, out_weight = 0;
    MPI_Dist_graph_neighbors(spread, 1, &source, &in_weight, 1, &target, &out_weight);
    note({source, target, in_weight, out_weight});
    neighbours(spread, 1, 1);
    std::vector<int> index(size_), edges(size_);
    for (int i = 0; i < size_; ++i) {
      index[i] = i + 1;
      edges[i] = (i + 1) % size_;
    }
    MPI_Graph_create(comm_, size_, index.data(), edges.data(), 0, &graph);
    int nodes = 0, links = 0, count = 0;
    MPI_Graphdims_get(graph, &nodes, &links);
    MPI_Graph_get(graph, size_, size_, index.data(), edges.data());
    MPI_Graph_neighbors_count(graph, rank_, &count);
    MPI_Graph_neighbors(graph, rank_, 1, &target);
    note({nodes, links, count, target});
    note(edges);
    for (MPI_Comm* comm : {&ring, &graph, &spread}) MPI_Comm_free(comm);
  }

  void queries() {
    MPI_Comm twin;
    MPI_Comm_dup(comm_, &twin);
    int result = 0, inter = 1, length = 0, key = MPI_KEYVAL_INVALID, found = 0, in_world = 0;
    MPI_Comm_compare(comm_, twin, &result);
    MPI_Comm_test_inter(twin, &inter);
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm_get_name(twin, name, &length);
    note({result, inter, length});
    for (int i = 0; i < length; ++i) note(name[i]);
    MPI_Comm_set_name(twin, "twin");
    MPI_Comm_get_name(twin, name, &length);
    note(length);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
    MPI_Comm_set_attr(twin, key, &result);
    MPI_Comm copy;
    MPI_Comm_dup(twin, &copy);
    void* value = nullptr;
    MPI_Comm_get_attr(copy, key, &value, &found);
    note(found);
    note(value == &result);
    MPI_Comm_get_attr(comm_, key, &value, &found);
    note(found);
    MPI_Comm_rank(MPI_COMM_WORLD, &in_world);
    note(in_world);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&twin);
    MPI_Comm_free_keyval(&key);
  }

  MPI_Comm comm_;
  bool asks_for_groups_;
  int size_ = 1, rank_ = 0, right_ = 0, left_ = 0;
  std::mt19937 random_{std::random_device{}()};
  std::uint64_t sum_ = 1469598103934665603u;
};

}  // namespace backstay::mpi_test
