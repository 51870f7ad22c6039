// What a communicator or a group is asked, under the names of MPI's functions (see logged_call.h).
#include <mpi.h>

#include <algorithm>

#include "comm/message_log.h"
#include "comm/message_log/phase.h"

namespace backstay::comm::message_log {
namespace {

std::atomic<bool> saw_mpi_begin{false};
std::atomic<bool> some_are_unseen{false};

/// The size of a communicator, or this process's rank in it. Where it is not of the phase it is in the log, too: the
/// replacement of a rank has another one in MPI_COMM_WORLD.
int ask_number(const char* name, MPI_Comm comm, int Member::* known, int* answer, const Real& real) {
  const Way way = way_of(comm, Use::asks_size, name);
  const Phase* const phase = own_phase();
  const Member* const member = phase == nullptr ? nullptr : phase->find(comm);
  if (way != Way::pass && member != nullptr) {
    *answer = member->*known;
    return MPI_SUCCESS;
  }
  return carry_out(way, {name, comm}, real, [&](Flow& flow) { flow.number(*answer, known == &Member::size ? 1 : 0); });
}

/// Answers that are `count` numbers.
int ask(const char* name, MPI_Comm comm, const Facts& facts, int* answers, std::int64_t count, const Real& real) {
  const Call call{name, comm, facts.empty() ? "" : "with %", facts, Use::asks};
  return logged(call, real, [&](Flow& flow) { flow.numbers(answers, count); });
}

/// The same of groups, which belong to no communicator.
int ask_group(const char* name, const Facts& facts, int* answers, std::int64_t count, const Real& real) {
  return ask(name, MPI_COMM_SELF, facts, answers, count, real);
}

bool is_of_phase(MPI_Comm comm) {
  const Phase* const phase = own_phase();
  return phase != nullptr && phase->find(comm) != nullptr;
}

/// What the program keeps with a communicator is with its stand-in, if the phase has put it there, or with the
/// communicator of the workers, which has none.
int ask_attribute(MPI_Comm comm, int key, void* value, int* flag) {
  const auto real = [&] { return PMPI_Comm_get_attr(comm, key, value, flag); };
  return logged({"MPI_Comm_get_attr", comm, "", {}, Use::asks}, real, [&](Flow& flow) {
    bool found = flow.recording() && *flag != 0;
    flow.number(found);
    if (flow.recording()) return;
    *flag = 0;
    if (flow.failed()) return;
    real();
    if ((*flag != 0) != found)
      flow.give_up(
          "the phase asks for an attribute that its communicator had in the recording and does not have in the "
          "replay, or has only there; set it in the phase");
    if (flow.failed()) *flag = 0;
  });
}

}  // namespace

bool can_record() { return saw_mpi_begin && !some_are_unseen; }
void calls_are_unseen() { some_are_unseen = true; }

extern "C" {
#pragma GCC visibility push(default)

int MPI_Init(int* argc, char*** argv) {
  saw_mpi_begin = true;
  return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  saw_mpi_begin = true;
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Comm_size(MPI_Comm comm, int* size) {
  if (quiet()) return PMPI_Comm_size(comm, size);
  return ask_number("MPI_Comm_size", comm, &Member::size, size, [&] { return PMPI_Comm_size(comm, size); });
}

int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  if (quiet()) return PMPI_Comm_rank(comm, rank);
  return ask_number("MPI_Comm_rank", comm, &Member::rank, rank, [&] { return PMPI_Comm_rank(comm, rank); });
}

/// A replacement may be on another node.
int MPI_Get_processor_name(char* name, int* length) {
  const auto real = [&] { return PMPI_Get_processor_name(name, length); };
  if (quiet()) return real();
  return logged({"MPI_Get_processor_name", MPI_COMM_SELF, "", {}, Use::asks}, real,
                [&](Flow& flow) { flow.text(name, length, MPI_MAX_PROCESSOR_NAME); });
}

int MPI_Comm_compare(MPI_Comm one, MPI_Comm other, int* result) {
  const auto real = [&] { return PMPI_Comm_compare(one, other, result); };
  if (quiet()) return real();
  return ask("MPI_Comm_compare", is_of_phase(one) ? one : other, {}, result, 1, real);
}

int MPI_Comm_test_inter(MPI_Comm comm, int* flag) {
  if (quiet()) return PMPI_Comm_test_inter(comm, flag);
  return ask("MPI_Comm_test_inter", comm, {}, flag, 1, [&] { return PMPI_Comm_test_inter(comm, flag); });
}

int MPI_Comm_get_name(MPI_Comm comm, char* name, int* length) {
  const auto real = [&] { return PMPI_Comm_get_name(comm, name, length); };
  if (quiet()) return real();
  return logged({"MPI_Comm_get_name", comm, "", {}, Use::asks}, real,
                [&](Flow& flow) { flow.text(name, length, MPI_MAX_OBJECT_NAME); });
}

int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* flag) {
  if (quiet()) return PMPI_Comm_get_attr(comm, key, value, flag);
  return ask_attribute(comm, key, value, flag);
}

int MPI_Comm_group(MPI_Comm comm, MPI_Group* group) {
  const auto real = [&] { return PMPI_Comm_group(comm, group); };
  if (quiet()) return real();
  return logged({"MPI_Comm_group", comm, "", {}, Use::asks}, real, [&](Flow& flow) {
    if (flow.recording()) return;
    *group = MPI_GROUP_EMPTY;
    if (flow.failed()) return;
    if (comm == MPI_COMM_SELF) {
      real();
      return;
    }
    auto made = group_of_stand_in(flow.phase(), *flow.phase().find(comm));
    if (!made) return flow.give_up(made.failure().what);
    *group = *made;
  });
}

int MPI_Group_size(MPI_Group group, int* size) {
  if (quiet()) return PMPI_Group_size(group, size);
  return ask_group("MPI_Group_size", {}, size, 1, [&] { return PMPI_Group_size(group, size); });
}

int MPI_Group_rank(MPI_Group group, int* rank) {
  if (quiet()) return PMPI_Group_rank(group, rank);
  return ask_group("MPI_Group_rank", {}, rank, 1, [&] { return PMPI_Group_rank(group, rank); });
}

int MPI_Group_compare(MPI_Group one, MPI_Group other, int* result) {
  const auto real = [&] { return PMPI_Group_compare(one, other, result); };
  if (quiet()) return real();
  return ask_group("MPI_Group_compare", {}, result, 1, real);
}

int MPI_Group_translate_ranks(MPI_Group from, int count, const int ranks[], MPI_Group to, int translated[]) {
  const auto real = [&] { return PMPI_Group_translate_ranks(from, count, ranks, to, translated); };
  if (quiet()) return real();
  return ask_group("MPI_Group_translate_ranks", Facts(ranks, ranks + count), translated, count, real);
}

int MPI_Topo_test(MPI_Comm comm, int* topology) {
  if (quiet()) return PMPI_Topo_test(comm, topology);
  return ask("MPI_Topo_test", comm, {}, topology, 1, [&] { return PMPI_Topo_test(comm, topology); });
}

int MPI_Cartdim_get(MPI_Comm comm, int* dims) {
  if (quiet()) return PMPI_Cartdim_get(comm, dims);
  return ask("MPI_Cartdim_get", comm, {}, dims, 1, [&] { return PMPI_Cartdim_get(comm, dims); });
}

int MPI_Cart_get(MPI_Comm comm, int room, int dims[], int periods[], int coords[]) {
  const auto real = [&] { return PMPI_Cart_get(comm, room, dims, periods, coords); };
  if (quiet()) return real();
  return logged({"MPI_Cart_get", comm, "with room for %", {room}, Use::asks}, real, [&](Flow& flow) {
    int used = room;
    if (flow.recording()) PMPI_Cartdim_get(comm, &used);
    used = std::min(used, room);
    flow.number(used);
    for (int* const answer : {dims, periods, coords}) flow.numbers(answer, std::min(used, room));
  });
}

int MPI_Cart_coords(MPI_Comm comm, int rank, int room, int coords[]) {
  const auto real = [&] { return PMPI_Cart_coords(comm, rank, room, coords); };
  if (quiet()) return real();
  return logged({"MPI_Cart_coords", comm, "of rank % with room for %", {rank, room}, Use::asks}, real, [&](Flow& flow) {
    int used = room;
    if (flow.recording()) PMPI_Cartdim_get(comm, &used);
    used = std::min(used, room);
    flow.number(used);
    flow.numbers(coords, std::min(used, room));
  });
}

int MPI_Cart_rank(MPI_Comm comm, const int coords[], int* rank) {
  const auto real = [&] { return PMPI_Cart_rank(comm, coords, rank); };
  if (quiet()) return real();
  // A grid has two neighbours in each direction.
  const Facts facts = is_of_phase(comm) ? Facts(coords, coords + sources_in(comm).size() / 2) : Facts();
  return ask("MPI_Cart_rank", comm, facts, rank, 1, real);
}

int MPI_Cart_shift(MPI_Comm comm, int direction, int steps, int* from, int* to) {
  const auto real = [&] { return PMPI_Cart_shift(comm, direction, steps, from, to); };
  if (quiet()) return real();
  return logged({"MPI_Cart_shift", comm, "in direction % by %", {direction, steps}, Use::asks}, real, [&](Flow& flow) {
    flow.number(*from, MPI_PROC_NULL);
    flow.number(*to, MPI_PROC_NULL);
  });
}

int MPI_Cart_map(MPI_Comm comm, int count, const int dims[], const int periods[], int* rank) {
  const auto real = [&] { return PMPI_Cart_map(comm, count, dims, periods, rank); };
  if (quiet()) return real();
  return ask("MPI_Cart_map", comm, {count}, rank, 1, real);
}

int MPI_Graph_map(MPI_Comm comm, int nodes, const int index[], const int edges[], int* rank) {
  const auto real = [&] { return PMPI_Graph_map(comm, nodes, index, edges, rank); };
  if (quiet()) return real();
  return ask("MPI_Graph_map", comm, {nodes}, rank, 1, real);
}

int MPI_Graphdims_get(MPI_Comm comm, int* nodes, int* edges) {
  const auto real = [&] { return PMPI_Graphdims_get(comm, nodes, edges); };
  if (quiet()) return real();
  return logged({"MPI_Graphdims_get", comm, "", {}, Use::asks}, real, [&](Flow& flow) {
    flow.number(*nodes);
    flow.number(*edges);
  });
}

int MPI_Graph_get(MPI_Comm comm, int index_room, int edge_room, int index[], int edges[]) {
  const auto real = [&] { return PMPI_Graph_get(comm, index_room, edge_room, index, edges); };
  if (quiet()) return real();
  return logged({"MPI_Graph_get", comm, "with room for % and %", {index_room, edge_room}, Use::asks}, real,
                [&](Flow& flow) {
                  int nodes = 0, links = 0;
                  if (flow.recording()) PMPI_Graphdims_get(comm, &nodes, &links);
                  flow.number(nodes);
                  flow.number(links);
                  flow.numbers(index, std::min(nodes, index_room));
                  flow.numbers(edges, std::min(links, edge_room));
                });
}

int MPI_Graph_neighbors_count(MPI_Comm comm, int rank, int* count) {
  const auto real = [&] { return PMPI_Graph_neighbors_count(comm, rank, count); };
  if (quiet()) return real();
  return ask("MPI_Graph_neighbors_count", comm, {rank}, count, 1, real);
}

int MPI_Graph_neighbors(MPI_Comm comm, int rank, int room, int neighbors[]) {
  const auto real = [&] { return PMPI_Graph_neighbors(comm, rank, room, neighbors); };
  if (quiet()) return real();
  return logged({"MPI_Graph_neighbors", comm, "of rank % with room for %", {rank, room}, Use::asks}, real,
                [&](Flow& flow) {
                  int count = 0;
                  if (flow.recording()) PMPI_Graph_neighbors_count(comm, rank, &count);
                  flow.number(count);
                  flow.numbers(neighbors, std::min(count, room));
                });
}

int MPI_Dist_graph_neighbors_count(MPI_Comm comm, int* in, int* out, int* weighted) {
  const auto real = [&] { return PMPI_Dist_graph_neighbors_count(comm, in, out, weighted); };
  if (quiet()) return real();
  return logged({"MPI_Dist_graph_neighbors_count", comm, "", {}, Use::asks}, real, [&](Flow& flow) {
    for (int* const answer : {in, out, weighted}) flow.number(*answer);
  });
}

int MPI_Dist_graph_neighbors(MPI_Comm comm, int in_room, int sources[], int in_weights[], int out_room, int targets[],
                             int out_weights[]) {
  const auto real = [&] {
    return PMPI_Dist_graph_neighbors(comm, in_room, sources, in_weights, out_room, targets, out_weights);
  };
  if (quiet()) return real();
  return logged({"MPI_Dist_graph_neighbors", comm, "with room for % and %", {in_room, out_room}, Use::asks}, real,
                [&](Flow& flow) {
                  int in = 0, out = 0, weighted = 0;
                  if (flow.recording()) PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
                  for (int* const answer : {&in, &out, &weighted}) flow.number(*answer);
                  flow.numbers(sources, std::min(in, in_room));
                  flow.numbers(targets, std::min(out, out_room));
                  if (weighted == 0) return;
                  if (in_weights != MPI_UNWEIGHTED) flow.numbers(in_weights, std::min(in, in_room));
                  if (out_weights != MPI_UNWEIGHTED) flow.numbers(out_weights, std::min(out, out_room));
                });
}

#pragma GCC visibility pop
}

}  // namespace backstay::comm::message_log
