// Messages between two ranks, under the names of MPI's functions (see logged_call.h).
#include <mpi.h>

#include "comm/message_log/phase.h"
#include "comm/open_requests.h"

namespace backstay::comm::message_log {
namespace {

constexpr const char* to_words = "to rank %, tag %, % bytes,";
constexpr const char* from_words = "from rank %, tag %, room for % bytes,";
constexpr const char* probe_words = "for rank %, tag %,";
constexpr const char* both_words = "to rank %, tag %, % bytes, from rank %, tag %, room for % bytes,";

Call sending(const char* name, MPI_Comm comm, std::int64_t count, MPI_Datatype type, int to, int tag, Use use) {
  return {name, comm, to_words, {to, tag, bytes_of(count, type)}, use};
}

int send(const char* name, MPI_Comm comm, std::int64_t count, MPI_Datatype type, int to, int tag, const Real& real) {
  return logged(sending(name, comm, count, type, to, tag, Use::communicates), real, [](Flow&) {});
}

int start_send(const char* name, MPI_Comm comm, std::int64_t count, MPI_Datatype type, int to, int tag, bool persistent,
               MPI_Request* request, const Real& real) {
  Pending pending{.name = name};
  pending.persistent = persistent;
  return logged_start(sending(name, comm, count, type, to, tag, Use::starts), request, real, pending);
}

int start_receive(const char* name, MPI_Comm comm, const TypedData& into, int from, int tag, bool persistent,
                  MPI_Request* request, const Real& real) {
  Pending pending{.name = name, .written = {into}, .is_message = true};
  pending.persistent = persistent;
  return logged_start({name, comm, from_words, {from, tag, into.bytes()}, Use::starts}, request, real, pending);
}

using RealWithStatus = std::function<int(MPI_Status*)>;

/// The call; the program gets its status even where nothing is recorded any more.
Real with_status(const RealWithStatus& real, MPI_Status& seen, MPI_Status* status) {
  return [&real, &seen, status] {
    const int code = real(&seen);
    give(status, seen);
    return code;
  };
}

/// A call that receives a message at once.
int receive(const Call& call, const TypedData& into, MPI_Status* status, const RealWithStatus& real) {
  const Way way = way_of(call.comm, call.use, call.name);
  if (way == Way::pass) return real(status);
  MPI_Status seen = empty_status();
  return carry_out(way, call, with_status(real, seen, status), [&](Flow& flow) {
    flow.status(seen);
    flow.data(into, received_bytes(seen));
    if (!flow.recording()) give(status, seen);
  });
}

/// Has a message come? It has `message` in the probes that match one.
int probe(const Call& call, int* flag, MPI_Message* message, MPI_Status* status, const RealWithStatus& real) {
  const Way way = way_of(call.comm, call.use, call.name);
  if (way == Way::pass) return real(status);
  MPI_Status seen = empty_status();
  return carry_out(way, call, with_status(real, seen, status), [&](Flow& flow) {
    if (flag != nullptr) flow.number(*flag, 1);
    if (message != nullptr && !flow.recording()) *message = MPI_MESSAGE_NULL;
    if (flag != nullptr && *flag == 0) return flow.idle();
    flow.status(seen);
    if (!flow.recording()) give(status, seen);
    if (message == nullptr || flow.failed()) return;
    bool from_nobody = flow.recording() && *message == MPI_MESSAGE_NO_PROC;
    flow.number(from_nobody);
    if (flow.failed()) return;
    const auto number = ++flow.phase().next_message;
    // Never given to MPI, which has small numbers and unaligned addresses for nothing.
    if (!flow.recording())
      *message = from_nobody ? MPI_MESSAGE_NO_PROC : (MPI_Message)(std::intptr_t)(4 * number + 1);  // NOLINT
    if (!from_nobody) flow.phase().messages[*message] = number;
  });
}

/// Those that receive what a probe has matched: their communicator is that of the probe.
Way way_of_matched(MPI_Message message, const char* name, std::int64_t* number) {
  Phase* const phase = own_phase();
  if (phase == nullptr || is_unseen()) return Way::pass;
  if (phase->in_vain) return phase->replays ? Way::refuse : Way::pass;
  *number = 0;
  const auto found = phase->messages.find(message);
  if (found != phase->messages.end()) *number = found->second;
  if (found == phase->messages.end() && message != MPI_MESSAGE_NO_PROC) {
    phase->give_up(cat("the phase called ", name, " for a message that was not probed for in it"));
    return phase->replays ? Way::refuse : Way::pass;
  }
  return phase->replays ? Way::replay : Way::record;
}

Call receiving_matched(const char* name, std::int64_t number, const TypedData& into) {
  const Phase* const phase = own_phase();
  return {name,
          phase == nullptr ? MPI_COMM_NULL : phase->workers,
          "of probed message %, room for % bytes,",
          {number, into.bytes()}};
}

void forget(Flow& flow, MPI_Message known, MPI_Message* message) {
  if (!flow.failed()) flow.phase().messages.erase(known);
  if (!flow.recording()) *message = MPI_MESSAGE_NULL;
}

}  // namespace

#define BACKSTAY_SENDS(DEFINE) DEFINE(Send, send) DEFINE(Bsend, bsend) DEFINE(Ssend, ssend) DEFINE(Rsend, rsend)

#define BACKSTAY_DEFINE_SEND(Name, name)                                                                  \
  int MPI_##Name(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {      \
    if (quiet()) return PMPI_##Name(buffer, count, type, to, tag, comm);                                  \
    return send("MPI_" #Name, comm, count, type, to, tag,                                                 \
                [&] { return PMPI_##Name(buffer, count, type, to, tag, comm); });                         \
  }                                                                                                       \
  int MPI_I##name(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,       \
                  MPI_Request* request) {                                                                 \
    const auto real = [&] {                                                                               \
      return OpenRequests::begun(PMPI_I##name(buffer, count, type, to, tag, comm, request), request);     \
    };                                                                                                    \
    if (quiet()) return real();                                                                           \
    return start_send("MPI_I" #name, comm, count, type, to, tag, false, request, real);                   \
  }                                                                                                       \
  int MPI_##Name##_init(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                        MPI_Request* request) {                                                           \
    if (quiet()) return PMPI_##Name##_init(buffer, count, type, to, tag, comm, request);                  \
    return start_send("MPI_" #Name "_init", comm, count, type, to, tag, true, request,                    \
                      [&] { return PMPI_##Name##_init(buffer, count, type, to, tag, comm, request); });   \
  }

extern "C" {
#pragma GCC visibility push(default)

BACKSTAY_SENDS(BACKSTAY_DEFINE_SEND)

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  if (quiet()) return PMPI_Recv(buffer, count, type, from, tag, comm, status);
  const TypedData into{buffer, count, type};
  return receive({"MPI_Recv", comm, from_words, {from, tag, into.bytes()}}, into, status,
                 [&](MPI_Status* s) { return PMPI_Recv(buffer, count, type, from, tag, comm, s); });
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  const auto real = [&] {
    return OpenRequests::begun(PMPI_Irecv(buffer, count, type, from, tag, comm, request), request);
  };
  if (quiet()) return real();
  return start_receive("MPI_Irecv", comm, {buffer, count, type}, from, tag, false, request, real);
}

int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  if (quiet()) return PMPI_Recv_init(buffer, count, type, from, tag, comm, request);
  return start_receive("MPI_Recv_init", comm, {buffer, count, type}, from, tag, true, request,
                       [&] { return PMPI_Recv_init(buffer, count, type, from, tag, comm, request); });
}

int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag, void* in, int in_count,
                 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) {
    return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, s);
  };
  if (quiet()) return real(status);
  const TypedData into{in, in_count, in_type};
  const Facts facts = {to, out_tag, bytes_of(out_count, out_type), from, in_tag, into.bytes()};
  return receive({"MPI_Sendrecv", comm, both_words, facts}, into, status, real);
}

int MPI_Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int to, int out_tag, int from, int in_tag,
                         MPI_Comm comm, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) {
    return PMPI_Sendrecv_replace(buffer, count, type, to, out_tag, from, in_tag, comm, s);
  };
  if (quiet()) return real(status);
  const TypedData into{buffer, count, type};
  const Facts facts = {to, out_tag, into.bytes(), from, in_tag, into.bytes()};
  return receive({"MPI_Sendrecv_replace", comm, both_words, facts}, into, status, real);
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) { return PMPI_Probe(from, tag, comm, s); };
  if (quiet()) return real(status);
  return probe({"MPI_Probe", comm, probe_words, {from, tag}}, nullptr, nullptr, status, real);
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) { return PMPI_Iprobe(from, tag, comm, flag, s); };
  if (quiet()) return real(status);
  return probe({"MPI_Iprobe", comm, probe_words, {from, tag}}, flag, nullptr, status, real);
}

int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) { return PMPI_Mprobe(from, tag, comm, message, s); };
  if (quiet()) return real(status);
  return probe({"MPI_Mprobe", comm, probe_words, {from, tag}, Use::starts}, nullptr, message, status, real);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) { return PMPI_Improbe(from, tag, comm, flag, message, s); };
  if (quiet()) return real(status);
  return probe({"MPI_Improbe", comm, probe_words, {from, tag}, Use::starts}, flag, message, status, real);
}

int MPI_Mrecv(void* buffer, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) { return PMPI_Mrecv(buffer, count, type, message, s); };
  if (quiet()) return real(status);
  std::int64_t number = 0;
  const MPI_Message known = *message;
  const Way way = way_of_matched(known, "MPI_Mrecv", &number);
  if (way == Way::pass) return real(status);
  const TypedData into{buffer, count, type};
  MPI_Status seen = empty_status();
  return carry_out(way, receiving_matched("MPI_Mrecv", number, into), with_status(real, seen, status), [&](Flow& flow) {
    flow.status(seen);
    flow.data(into, received_bytes(seen));
    if (!flow.recording()) give(status, seen);
    forget(flow, known, message);
  });
}

int MPI_Imrecv(void* buffer, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request) {
  const auto real = [&] { return OpenRequests::begun(PMPI_Imrecv(buffer, count, type, message, request), request); };
  if (quiet()) return real();
  std::int64_t number = 0;
  const MPI_Message known = *message;
  const Way way = way_of_matched(known, "MPI_Imrecv", &number);
  if (way == Way::pass) return real();
  const TypedData into{buffer, count, type};
  return carry_out(way, receiving_matched("MPI_Imrecv", number, into), real, [&](Flow& flow) {
    forget(flow, known, message);
    started(flow, request, {.name = "MPI_Imrecv", .written = {into}, .is_message = true});
  });
}

#pragma GCC visibility pop
}

}  // namespace backstay::comm::message_log
