// How a process of a job that can be repaired ends, so that the others do not wait for it.
#pragma once

#include <mpi.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_operation.h"

namespace backstay::comm::leaving {

/// The crew of this process is `all`. If losses are `noticed`, the others count on it from now on: until it ends in
/// finalize(), or the job is lost, its end is a loss that they have to notice. `bound`: of what waits at the end of
/// MPI.
///
/// Open MPI's launcher (5.0.x, --with-ft ulfm) tells the others of a process that a signal ends, and of one that ends
/// with status 0 before MPI_Finalize; of one that ends with another status it does not, and they wait for ever. Nor
/// does MPI_Abort end the others then. Such a process therefore ends by SIGKILL, as the last thing that its exit does.
/// Only glibc tells the status there; with another library such an exit is not seen.
void others_count_on_me(MPI_Comm all, std::chrono::milliseconds bound, bool noticed);

/// What all say in the last meeting of a crew, after which spares go: see Crew::meet().
constexpr int all_are_closing = 3;

/// This process has left the work by an error, of which the others may know nothing, and the last meeting of its crew
/// is still to come: it takes place before MPI_Finalize. If not all close their sessions within the bound, the process
/// ends as one that is lost.
void others_may_not_come();

/// A rank was lost before all had come to the end of MPI: what it still had to do is not done.
[[nodiscard]] bool a_rank_did_not_come();

/// This process is one of `ranks`, which meet before MPI ends and wait for spares for the bound at most; MPI_COMM_NULL:
/// it is a spare, which waits for them.
void is_one_of(MPI_Comm ranks);
/// What is called where a spare has not come by then, with the numbers of all spares in MPI_COMM_WORLD: the ranks leave
/// without MPI_Finalize.
void where_no_spare_comes(std::function<void(const std::vector<int>& spares)> what);

/// The job is lost, and all know. MPI_Finalize would wait for those who leave without it.
void nobody_counts_on_me();
[[nodiscard]] bool job_is_lost();
/// It is not, and has come to its end: it is a spare that did not, for which MPI_Finalize would wait.
[[nodiscard]] bool ends_without_spares();
/// For the other spares of the crew: the ranks are past that. `lowest`: of the ranks.
[[nodiscard]] bool ranks_have_ended(MPI_Comm all, int lowest);

[[nodiscard]] bool am_counted_on();

/// What is called before such an end, with its status; for the journal.
void tell_of_it_by(std::function<void(int status)> tell);
/// What the lowest rank calls once all ranks are at the end of MPI: who dies before it had something left to do.
void tell_that_all_have_come_by(std::function<void()> tell);

/// If the others count on this process (and it is not one that it has forked), it ends here: `how` and `status` say
/// why.
void end_noticed(const std::string& how, int status);
/// The same as the last thing of exit(), where MPI may have ended as it should.
void end_at_exit(int status);

/// What is called at the beginning of MPI_Finalize, with the program's own call of it too (not in Python).
void before_mpi_ends(void (*what)());

/// This process has started `operation`, a collective one, and leaves without its result. It is carried on before
/// MPI_Finalize until it is done, for `bound` at most: others may need more steps of this process in it, and MPICH's
/// MPI_Finalize waits for them without carrying on anything. Open MPI's carries on all, so nothing is done there.
void others_may_need(std::shared_ptr<Operation> operation, std::chrono::milliseconds bound);

/// What is called where MPI_Finalize does not end within the bound, before SIGKILL. It may end the process by a status,
/// of which the launcher tells its own caller: all who wait there wait for the bound at most.
void before_the_late_end(void (*what)());

/// All who live meet, and from here on MPI has to end within the bound. For programs whose MPI_Finalize is not ours
/// (mpi4py's), as the last thing before it; finalize() does the same. So does MPI_Finalize itself, whoever calls it,
/// where nobody has met before; where it would not end, the process ends in it.
void meet_before_the_end();

/// MPI_Finalize; nothing where the job is lost, or where spares have not come. Open MPI's makes a communicator of those
/// who live, in which all meet: who waits there is not woken when another one dies in it, and waits with a busy core.
/// So all meet before it, asleep; who dies there is noticed. After that, a loss inside of it ends at the bound.
int finalize();

}  // namespace backstay::comm::leaving
