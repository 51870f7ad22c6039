// Requests: their start, and the calls that wait for them or test them (see logged_call.h).
#include <mpi.h>

#include <algorithm>

#include "comm/message_log/phase.h"
#include "comm/open_requests.h"

namespace backstay::comm::message_log {
namespace {

Pending* only_pending(Phase& phase, MPI_Request request) {
  const auto found = phase.requests.find(request);
  return found == phase.requests.end() ? nullptr : &found->second.pending.front();
}

/// Is done with now, or has been already.
bool is_done(MPI_Request request, MPI_Status* status) {
  int done = 0;
  return PMPI_Request_get_status(request, &done, status) == MPI_SUCCESS && done != 0;
}

void exchange_data(Flow& flow, Pending& pending, const MPI_Status& status) {
  if (pending.given) return;
  for (const auto& data : pending.written)
    pending.is_message ? flow.data(data, received_bytes(status)) : flow.data(data);
  pending.given = true;
}

/// MPI may have one handle for several operations that were done at once, so what such a one has received is taken now.
void exchange_early(Flow& flow, Pending& pending, MPI_Request request) {
  if (pending.persistent || pending.written.empty()) return;
  MPI_Status status = empty_status();
  bool early = flow.recording() && is_done(request, &status);
  flow.number(early);
  if (!early || flow.failed()) return;
  if (pending.is_message) flow.status(status);
  exchange_data(flow, pending, status);
}

void add(Phase& phase, MPI_Request request, Pending pending) {
  const std::lock_guard lock(phase_mutex());
  Shared& shared = phase.requests[request];
  shared.interchangeable = shared.interchangeable || !shared.pending.empty();
  shared.pending.push_back(std::move(pending));
}

/// The oldest operation of the handle is over. A stand-in ends with it.
void retire(Flow& flow, MPI_Request handle, MPI_Request* request) {
  Phase& phase = flow.phase();
  const std::lock_guard lock(phase_mutex());
  const auto found = phase.requests.find(handle);
  auto& pending = found->second.pending;
  if (pending.front().persistent) {
    pending.front().active = false;
    pending.front().given = false;
    return;
  }
  pending.erase(pending.begin());
  if (pending.empty()) phase.requests.erase(found);
  if (!flow.recording()) end_stand_in(request);
}

/// A call that waits for requests or tests them.
struct Completion {
  enum class Of { one, all, any, some };
  const char* name;
  Of of;
  int count;
  MPI_Request* requests;
  int* flag;     ///< null: it waits
  int* done;     ///< of any: the index; of some: how many
  int* indices;  ///< of some
  MPI_Status* statuses;
  bool keeps = false;  ///< the requests stay as they are
};

using RealWithStatuses = std::function<int(MPI_Status*)>;

constexpr std::int64_t any_operation = -1;

/// Operation number `j` of those that this call completes: which one it was, and what it gave.
void exchange_operation(Flow& flow, const Completion& call, const std::vector<MPI_Request>& handles, int position,
                        MPI_Status& status) {
  auto found = flow.phase().requests.end();
  if (position >= 0 && position < call.count) found = flow.phase().requests.find(handles[position]);
  if (found == flow.phase().requests.end())
    return flow.give_up(cat(call.name, " is called with other requests than in the recording"));
  Pending& pending = found->second.pending.front();
  std::int64_t number = found->second.interchangeable ? any_operation : pending.number;
  flow.number(number);
  const bool has_more = (!pending.given && !pending.written.empty()) || pending.made != nullptr;
  if (number == any_operation && has_more)
    return flow.give_up("MPI has one handle for several operations that are under way");
  if (number != any_operation && number != pending.number)
    return flow.give_up(
        cat(call.name, " is called for another operation than in the recording: that of ", pending.name));
  flow.status(status);
  exchange_data(flow, pending, status);
  if (pending.made != nullptr) flow.made(pending.from, std::exchange(pending.made, nullptr), true);
  if (!flow.failed() && !call.keeps) retire(flow, handles[position], &call.requests[position]);
}

bool is_under_way(Phase& phase, MPI_Request request) {
  Pending* const pending = only_pending(phase, request);
  return pending != nullptr && pending->active;
}

/// Where the operations are that the call has completed.
std::vector<int> positions_of(Flow& flow, const Completion& call, const std::vector<MPI_Request>& handles) {
  std::vector<int> positions;
  if (flow.recording()) {
    if (call.of == Completion::Of::any) {
      if (*call.done != MPI_UNDEFINED) positions = {*call.done};
    } else if (call.of == Completion::Of::some) {
      if (*call.done != MPI_UNDEFINED) positions.assign(call.indices, call.indices + *call.done);
    } else {
      for (int i = 0; i < call.count; ++i) positions.push_back(i);
    }
    std::erase_if(positions, [&](int i) { return !is_under_way(flow.phase(), handles[i]); });
  }
  auto count = static_cast<std::int64_t>(positions.size());
  flow.number(count);
  if (count < 0 || count > call.count) flow.give_up(cat(call.name, " is called with fewer requests than it completed"));
  if (flow.failed()) return {};
  positions.resize(count);
  for (int& position : positions) flow.number(position);
  return positions;
}

void give_statuses(const Completion& call, const std::vector<MPI_Status>& statuses, int code) {
  if (call.statuses == MPI_STATUSES_IGNORE || call.statuses == MPI_STATUS_IGNORE) return;
  std::size_t given = statuses.size();
  if (call.of == Completion::Of::some) given = *call.done == MPI_UNDEFINED ? 0 : static_cast<std::size_t>(*call.done);
  for (std::size_t i = 0; i < std::min(given, statuses.size()); ++i) {
    give(&call.statuses[i], statuses[i]);
    if (code == MPI_ERR_IN_STATUS) call.statuses[i].MPI_ERROR = statuses[i].MPI_ERROR;
  }
}

void exchange(Flow& flow, const Completion& call, const std::vector<MPI_Request>& handles,
              std::vector<MPI_Status>& statuses) {
  if (flow.failed())
    for (int i = 0; i < call.count; ++i) call.requests[i] = MPI_REQUEST_NULL;
  if (call.flag != nullptr) flow.number(*call.flag, 1);
  if (call.flag != nullptr && *call.flag == 0) {
    if (call.done != nullptr) *call.done = MPI_UNDEFINED;
    return flow.idle();
  }
  if (call.done != nullptr) flow.number(*call.done, MPI_UNDEFINED);
  const bool of_some = call.of == Completion::Of::some;
  const auto positions = positions_of(flow, call, handles);
  for (std::size_t j = 0; j < positions.size() && !flow.failed(); ++j) {
    const auto slot = of_some ? j : call.of == Completion::Of::all ? static_cast<std::size_t>(positions[j]) : 0;
    if (of_some) call.indices[j] = positions[j];
    if (slot >= statuses.size())
      return flow.give_up(cat(call.name, " is called with fewer requests than it completed"));
    exchange_operation(flow, call, handles, positions[j], statuses[slot]);
  }
  // A poll for some of them that found none.
  if (of_some && positions.empty() && *call.done == 0 && !flow.failed()) flow.idle();
  if (!flow.recording()) give_statuses(call, statuses, MPI_SUCCESS);
}

/// Of a thread that has no phase.
bool are_of_a_phase(const Completion& call) {
  const std::lock_guard lock(phase_mutex());
  Phase* const phase = present_phase_unlocked();
  if (phase == nullptr) return false;
  for (int i = 0; i < call.count; ++i) {
    if (!phase->requests.contains(call.requests[i])) continue;
    phase->give_up_unlocked(cat("another thread called ", call.name,
                                " for an operation of the phase; only the thread "
                                "that began the phase may do that"));
    return phase->replays;
  }
  return false;
}

Way way_of_completion(const Completion& call) {
  if (is_unseen()) return Way::pass;
  Phase* const phase = own_phase();
  if (phase == nullptr) return are_of_a_phase(call) ? Way::refuse : Way::pass;
  if (phase->in_vain && !phase->replays) return Way::pass;
  const auto known = std::count_if(call.requests, call.requests + call.count,
                                   [&](MPI_Request r) { return phase->requests.contains(r); });
  const auto none = std::count(call.requests, call.requests + call.count, MPI_REQUEST_NULL);
  if (known == 0 && none == call.count) return Way::pass;
  if (phase->in_vain) return Way::refuse;
  if (known + none == call.count) return phase->replays ? Way::replay : Way::record;
  phase->give_up(cat("the phase called ", call.name,
                     " for an operation that was started before it, or by a call that is not in the log; complete it "
                     "before the phase"));
  return phase->replays ? Way::refuse : Way::pass;
}

int complete(const Completion& call, const RealWithStatuses& real) {
  const Way way = way_of_completion(call);
  if (way == Way::pass) return real(call.statuses);
  const Phase* const phase = own_phase();
  const std::vector<MPI_Request> handles(call.requests, call.requests + call.count);
  const bool many = call.of == Completion::Of::all || call.of == Completion::Of::some;
  std::vector<MPI_Status> statuses(many ? call.count : 1, empty_status());
  return carry_out(
      way, {call.name, phase == nullptr ? MPI_COMM_NULL : phase->workers, "for % requests", {call.count}},
      [&] {
        const int code = real(statuses.data());
        give_statuses(call, statuses, code);
        return code;
      },
      [&](Flow& flow) { exchange(flow, call, handles, statuses); });
}

/// Those that have to do with requests and complete none.
Way way_of_request(MPI_Request* requests, int count, const char* name) {
  return way_of_completion(Completion{name, Completion::Of::all, count, requests, nullptr, nullptr, nullptr, nullptr});
}

int start_again(const char* name, MPI_Request* requests, int count, const Real& real) {
  const Way way = way_of_request(requests, count, name);
  if (way == Way::pass) return real();
  Facts numbers;
  Phase* const phase = own_phase();
  for (int i = 0; i < count && phase != nullptr; ++i)
    if (const Pending* const pending = only_pending(*phase, requests[i])) numbers.push_back(pending->number);
  return carry_out(way, {name, phase == nullptr ? MPI_COMM_NULL : phase->workers, "of operation %", numbers}, real,
                   [&](Flow& flow) {
                     for (int i = 0; i < count && !flow.failed(); ++i)
                       if (Pending* const pending = only_pending(flow.phase(), requests[i])) pending->active = true;
                   });
}

int free_request(MPI_Request* request, const Real& real) {
  const Way way = way_of_request(request, 1, "MPI_Request_free");
  if (way == Way::pass) return real();
  Phase* const phase = own_phase();
  const MPI_Request handle = *request;
  Pending* const pending = phase == nullptr ? nullptr : only_pending(*phase, handle);
  if (pending != nullptr && pending->active && !pending->written.empty() && !pending->given) {
    phase->give_up(cat("the phase freed the request of an operation that ", pending->name,
                       " started, so it is not known when its data came; wait for it"));
    if (!phase->replays) return real();
  }
  return carry_out(way, {"MPI_Request_free", phase == nullptr ? MPI_COMM_NULL : phase->workers}, real, [&](Flow& flow) {
    if (flow.failed()) {
      *request = MPI_REQUEST_NULL;
      return;
    }
    if (Pending* const freed = only_pending(flow.phase(), handle)) freed->persistent = false;
    retire(flow, handle, request);
  });
}

}  // namespace

void started(Flow& flow, MPI_Request* request, Pending pending) {
  if (!flow.recording()) *request = MPI_REQUEST_NULL;
  if (flow.failed()) return;
  for (auto& data : pending.written) data = keep_type(std::move(data));
  pending.active = !pending.persistent;
  pending.number = flow.phase().next_request++;
  exchange_early(flow, pending, *request);
  if (flow.failed()) return;
  if (!flow.recording()) *request = make_stand_in();
  add(flow.phase(), *request, std::move(pending));
}

int logged_start(const Call& call, MPI_Request* request, const Real& real, const Pending& pending) {
  return logged(call, real, [&](Flow& flow) { started(flow, request, pending); });
}

extern "C" {
#pragma GCC visibility push(default)

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(1, request, [&] { return PMPI_Wait(request, s); });
  };
  if (quiet()) return real(status);
  return complete({"MPI_Wait", Completion::Of::one, 1, request, nullptr, nullptr, nullptr, status}, real);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(count, requests, [&] { return PMPI_Waitall(count, requests, s); });
  };
  if (quiet()) return real(statuses);
  return complete({"MPI_Waitall", Completion::Of::all, count, requests, nullptr, nullptr, nullptr, statuses}, real);
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(count, requests, [&] { return PMPI_Waitany(count, requests, index, s); });
  };
  if (quiet()) return real(status);
  return complete({"MPI_Waitany", Completion::Of::any, count, requests, nullptr, index, nullptr, status}, real);
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(count, requests, [&] { return PMPI_Waitsome(count, requests, done, indices, s); });
  };
  if (quiet()) return real(statuses);
  return complete({"MPI_Waitsome", Completion::Of::some, count, requests, nullptr, done, indices, statuses}, real);
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(1, request, [&] { return PMPI_Test(request, flag, s); });
  };
  if (quiet()) return real(status);
  return complete({"MPI_Test", Completion::Of::one, 1, request, flag, nullptr, nullptr, status}, real);
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(count, requests, [&] { return PMPI_Testall(count, requests, flag, s); });
  };
  if (quiet()) return real(statuses);
  return complete({"MPI_Testall", Completion::Of::all, count, requests, flag, nullptr, nullptr, statuses}, real);
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(count, requests, [&] { return PMPI_Testany(count, requests, index, flag, s); });
  };
  if (quiet()) return real(status);
  return complete({"MPI_Testany", Completion::Of::any, count, requests, flag, index, nullptr, status}, real);
}

int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  const auto real = [&](MPI_Status* s) {
    return OpenRequests::completing(count, requests, [&] { return PMPI_Testsome(count, requests, done, indices, s); });
  };
  if (quiet()) return real(statuses);
  return complete({"MPI_Testsome", Completion::Of::some, count, requests, nullptr, done, indices, statuses}, real);
}

int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (quiet()) return PMPI_Request_get_status(request, flag, status);
  return complete({"MPI_Request_get_status", Completion::Of::one, 1, &request, flag, nullptr, nullptr, status, true},
                  [&](MPI_Status* s) { return PMPI_Request_get_status(request, flag, s); });
}

int MPI_Start(MPI_Request* request) {
  const auto real = [&] { return OpenRequests::begun_again(PMPI_Start(request), request, 1); };
  if (quiet()) return real();
  return start_again("MPI_Start", request, 1, real);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  const auto real = [&] { return OpenRequests::begun_again(PMPI_Startall(count, requests), requests, count); };
  if (quiet()) return real();
  return start_again("MPI_Startall", requests, count, real);
}

int MPI_Request_free(MPI_Request* request) {
  const auto real = [&] { return OpenRequests::completing(1, request, [&] { return PMPI_Request_free(request); }); };
  return quiet() ? real() : free_request(request, real);
}

int MPI_Cancel(MPI_Request* request) {
  if (quiet()) return PMPI_Cancel(request);
  const Way way = way_of_request(request, 1, "MPI_Cancel");
  Phase* const phase = own_phase();
  if (way == Way::pass || phase == nullptr) return PMPI_Cancel(request);
  return refused("MPI_Cancel", phase->workers, [&] { return PMPI_Cancel(request); });
}

#pragma GCC visibility pop
}

}  // namespace backstay::comm::message_log
