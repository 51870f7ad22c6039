// What calls give, on its way into the log and out of it.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "comm/message_log/phase.h"
#include "comm/mpi_operation.h"

namespace backstay::comm::message_log {

namespace {
/// Where neighbourhood collectives receive from. Of a grid: two in each direction, at a border from nobody.
std::vector<int> sources_of_grid(MPI_Comm comm) {
  int directions = 0;
  PMPI_Cartdim_get(comm, &directions);
  std::vector<int> sources;
  for (int direction = 0; direction < directions; ++direction) {
    int before = MPI_PROC_NULL, after = MPI_PROC_NULL;
    PMPI_Cart_shift(comm, direction, 1, &before, &after);
    sources.push_back(before);
    sources.push_back(after);
  }
  return sources;
}

void describe_neighbours(MPI_Comm comm, Member& member) {
  int topology = MPI_UNDEFINED;
  PMPI_Topo_test(comm, &topology);
  int in = 0, out = 0, weighted = 0;
  if (topology == MPI_CART) {
    member.sources = sources_of_grid(comm);
  } else if (topology == MPI_GRAPH) {
    PMPI_Graph_neighbors_count(comm, member.rank, &in);
    member.sources.resize(in);
    PMPI_Graph_neighbors(comm, member.rank, in, member.sources.data());
  } else if (topology == MPI_DIST_GRAPH) {
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    member.sources.resize(in);
    std::vector<int> targets(out), in_weights(in), out_weights(out);
    PMPI_Dist_graph_neighbors(comm, in, member.sources.data(), in_weights.data(), out, targets.data(),
                              out_weights.data());
  }
  member.targets = topology == MPI_DIST_GRAPH ? out : static_cast<int>(member.sources.size());
}

/// Each as its distance from its successor in a list that counts up: what is usual becomes zeros.
void exchange_list(Flow& flow, std::vector<int>& list) {
  auto size = static_cast<std::int64_t>(list.size());
  flow.number(size);
  std::int64_t expected = 0;
  if (!flow.recording()) list.clear();
  for (std::int64_t i = 0; i < size && !flow.failed(); ++i) {
    std::int64_t distance = flow.recording() ? list[i] - expected : 0;
    flow.number(distance);
    if (!flow.recording()) list.push_back(static_cast<int>(expected + distance));
    expected = list[i] + std::int64_t{1};
  }
}
}  // namespace

Member describe(const Phase& phase, MPI_Comm comm) {
  Member member;
  PMPI_Comm_size(comm, &member.size);
  PMPI_Comm_rank(comm, &member.rank);
  std::vector<int> own(member.size);
  std::iota(own.begin(), own.end(), 0);
  member.ranks.resize(member.size);
  MPI_Group group = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &group);
  PMPI_Group_translate_ranks(group, member.size, own.data(), phase.group, member.ranks.data());
  PMPI_Group_free(&group);
  describe_neighbours(comm, member);
  return member;
}

void exchange_member(Flow& flow, Member& member) {
  flow.number(member.size);
  flow.number(member.rank);
  exchange_list(flow, member.ranks);
  exchange_list(flow, member.sources);
  flow.number(member.targets);
}

/// MPI has no group of processes that are not there, so others of this job stand for them: each rank of the workers is
/// the process of MPI_COMM_WORLD with that number, but for this process, which changes places.
Result<MPI_Group> group_of_stand_in(const Phase& phase, const Member& member) {
  int size = 0, rank = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int mine = phase.find(phase.workers)->rank;
  std::vector<int> processes = member.ranks;
  for (int& process : processes) {
    if (process == mine)
      process = rank;
    else if (process == rank)
      process = mine;
    if (process < 0 || process >= size)
      return fail(Code::invalid_argument, "the phase asks for the group of a communicator of ", member.size,
                  " processes, and MPI_COMM_WORLD has only ", size, " in its replay");
  }
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  const auto made = check(PMPI_Group_incl(world, static_cast<int>(processes.size()), processes.data(), &group));
  PMPI_Group_free(&world);
  if (!made) return made.failure();
  return group;
}

namespace {
int no_status(void*, MPI_Status* status) {
  *status = empty_status();
  return MPI_SUCCESS;
}
int no_end(void*) { return MPI_SUCCESS; }
int no_cancel(void*, int) { return MPI_SUCCESS; }
}  // namespace

MPI_Request make_stand_in() {
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Grequest_start(no_status, no_end, no_cancel, nullptr, &request);
  return request;
}

void end_stand_in(MPI_Request* request) {
  PMPI_Grequest_complete(*request);
  PMPI_Request_free(request);
  *request = MPI_REQUEST_NULL;
}

MPI_Status empty_status() {
  MPI_Status status{};
  status.MPI_SOURCE = MPI_ANY_SOURCE;
  status.MPI_TAG = MPI_ANY_TAG;
  status.MPI_ERROR = MPI_SUCCESS;
  PMPI_Status_set_elements(&status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(&status, 0);
  return status;
}

std::int64_t received_bytes(const MPI_Status& status) {
  MPI_Count bytes = 0;
  PMPI_Get_elements_x(const_cast<MPI_Status*>(&status), MPI_BYTE, &bytes);
  return bytes == MPI_UNDEFINED ? 0 : bytes;
}

void give(MPI_Status* to, const MPI_Status& status) {
  if (to == MPI_STATUS_IGNORE) return;
  const int error = to->MPI_ERROR;
  *to = status;
  to->MPI_ERROR = error;
}

void Flow::give_up(std::string why) {
  if (failed()) return;
  phase_->give_up(std::move(why));
  if (!recording()) way_ = Way::failed;
}

void Flow::integer(std::int64_t& value, std::int64_t otherwise) {
  if (recording()) phase_->writer.number(value);
  if (way_ == Way::out) {
    value = phase_->reader.number();
    if (!phase_->reader.complete()) way_ = Way::failed;
  }
  if (failed()) value = otherwise;
}

void Flow::numbers(int* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count && !failed(); ++i) number(values[i]);
}

void Flow::text(char* at, int* length, int room) {
  number(*length);
  if (*length < 0 || *length >= room) give_up("a text in the log is longer than MPI allows");
  if (failed()) *length = 0;
  for (int i = 0; i < *length; ++i) number(at[i]);
  at[*length] = '\0';
}

void Flow::status(MPI_Status& status) {
  std::int64_t bytes = recording() ? received_bytes(status) : 0;
  if (!recording()) status = empty_status();
  number(status.MPI_SOURCE, MPI_ANY_SOURCE);
  number(status.MPI_TAG, MPI_ANY_TAG);
  number(bytes);
  if (!recording()) PMPI_Status_set_elements_x(&status, MPI_BYTE, static_cast<MPI_Count>(bytes));
}

void Flow::data(const TypedData& data, std::int64_t bytes) {
  number(bytes);
  if (failed() || bytes == 0) return;
  if (bytes < 0 || bytes > data.bytes())
    return give_up(cat("the log has ", bytes, " bytes for a buffer of ", data.bytes(),
                       ": a phase that is replayed must receive into buffers as large as those of its recording"));
  if (recording()) {
    if (const auto packed = pack(data, phase_->writer.room(bytes)); !packed) give_up(packed.failure().what);
    return;
  }
  const auto packed = phase_->reader.data(bytes);
  if (!phase_->reader.complete()) {
    way_ = Way::failed;
    return;
  }
  if (const auto unpacked = unpack(packed, data); !unpacked) give_up(unpacked.failure().what);
}

/// Like its model it has the error handler of its parent, and its attributes if it is a copy.
MPI_Comm Flow::stand_in(MPI_Comm parent, bool copied) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (parent == phase_->alias) parent = phase_->workers;
  const int code = copied ? PMPI_Comm_dup(parent, &made) : PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &made);
  if (const auto done = check(code); !done) {
    give_up(done.failure().what);
    return MPI_COMM_NULL;
  }
  PMPI_Comm_get_errhandler(parent, &handler);
  PMPI_Comm_set_errhandler(made, handler);
  PMPI_Errhandler_free(&handler);
  return made;
}

void Flow::made(MPI_Comm parent, MPI_Comm* made, bool copied) {
  bool any = recording() && *made != MPI_COMM_NULL;
  number(any);
  if (!recording()) *made = MPI_COMM_NULL;
  if (!any) return;
  Member member;
  if (recording()) {
    member = describe(*phase_, *made);
    if (std::ranges::count(member.ranks, MPI_UNDEFINED) > 0)
      return give_up("the phase made a communicator with processes that are not of the one it was given");
  }
  exchange_member(*this, member);
  if (failed()) return;
  member.number = phase_->next_comm++;
  if (!recording()) *made = stand_in(parent, copied);
  if (!failed()) phase_->add(*made, std::move(member));
}

void Flow::freed(MPI_Comm comm) {
  if (failed()) return;
  const std::lock_guard lock(phase_mutex());
  phase_->comms.erase(comm);
}

int rank_in(MPI_Comm comm) { return own_phase()->find(comm)->rank; }
int size_of(MPI_Comm comm) { return own_phase()->find(comm)->size; }
const std::vector<int>& sources_in(MPI_Comm comm) { return own_phase()->find(comm)->sources; }
int target_count_in(MPI_Comm comm) { return own_phase()->find(comm)->targets; }

}  // namespace backstay::comm::message_log
