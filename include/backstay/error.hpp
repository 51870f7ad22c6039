// The one exception of the C++ interface, and the codes it shares with C and Python.
#pragma once

#include <stdexcept>
#include <string>

/// Marks what the shared library gives to programs; everything else in it stays hidden.
#define BACKSTAY_EXPORT __attribute__((visibility("default")))

namespace backstay {

/// What kind of thing went wrong. The numbers are part of the C ABI: new ones are added at the end.
enum class Code : int {
  ok = 0,
  invalid_argument = 1,  ///< a call that can never work: a name used twice, a shape that does not fit
  unknown_option = 2,    ///< an option that does not exist; the message names the nearest real one
  not_found = 3,         ///< a file, region or line that is not there
  corrupt = 4,           ///< bytes that are there but are not the bytes that were written
  version = 5,           ///< written in a format version that this build does not read
  mismatch = 6,          ///< ranks, types or shapes that differ from what was saved or from other ranks
  io = 7,                ///< the storage refused: the message holds the system's reason
  no_space = 8,          ///< the storage is full
  permission = 9,        ///< the storage is there but may not be written
  locked = 10,           ///< another running job uses the same checkpoint directory
  comm = 11,             ///< talking to another rank failed
  timeout = 12,          ///< another rank, file or thread did not answer in time
  limit = 13,            ///< a limit on memory would be exceeded, or none is left
  user = 14,             ///< a callback of the user's failed
  internal = 15,         ///< a defect of backstay: please report it
  rank_lost = 16,        ///< a rank was lost, and nobody could take its place: start the job again
};

/// Thrown by every public C++ call that fails. `what()` is a sentence: what, where, what to do.
class BACKSTAY_EXPORT Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  [[nodiscard]] Code code() const noexcept { return code_; }

 private:
  Code code_;
};

/// Thrown inside loop() by calls of the session, and by MPI calls of this thread in comm() and in communicators made
/// from it, when a rank was lost: it leads to loop(), which repairs the job and begins the body again. No
/// std::exception, so that a program that catches those lets it through; one that catches everything must throw it on.
struct BACKSTAY_EXPORT RankLost {};

}  // namespace backstay
