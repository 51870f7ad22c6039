// SIGTERM and SIGUSR1 as a request for a last checkpoint. Signals belong to the process, so this is the one piece of
// state that sessions share: a count of listeners and a flag.
#pragma once

namespace backstay::api {

/// While one lives, the two signals set a flag instead of ending the process. A handler that the program installed
/// itself is left alone; one of the MPI library's (MPICH has one for SIGUSR1) is called, too. A signal that nobody
/// served is not lost: it is raised again when the last listener ends (not while an exception leaves the program).
class SignalListener {
 public:
  SignalListener();
  ~SignalListener();
  SignalListener(const SignalListener&) = delete;
  SignalListener& operator=(const SignalListener&) = delete;
  /// One of the signals has come since the first listener began.
  [[nodiscard]] static bool asked();
  /// The last checkpoint is there: once every listener has said so, the signals end the process again as they would
  /// without backstay.
  static void served();
  /// The signal by which the end of the only listener ends the process; 0: it does not.
  [[nodiscard]] static int ends_the_process();
};

}  // namespace backstay::api
