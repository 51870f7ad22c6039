// The bytes of a message log: entries, one for each MPI call, each with a head that says which call it was.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace backstay::comm {

using Facts = std::vector<std::int64_t>;

class LogWriter {
 public:
  /// Begins an entry; `name` is a literal.
  void begin(const char* name, std::int64_t comm, const Facts& facts);
  void number(std::int64_t n);
  /// `size` more bytes, to be filled at once. Their number is not written.
  MutableByteView room(std::size_t size);
  /// Ends the entry. Of idle ones (polls that found nothing) that are equal and follow each other, one is kept, with
  /// their number: there may be millions.
  void end(bool idle);
  /// All of it, and what LogReader needs to read it.
  [[nodiscard]] Bytes take();

 private:
  Bytes out_;
  std::unordered_map<const char*, std::int64_t> numbers_of_names_;
  std::vector<std::string_view> names_;
  std::size_t begin_ = 0;       ///< of the entry being written
  std::size_t idle_begin_ = 0;  ///< of the newest entry, if it is idle
  std::size_t idle_end_ = 0;    ///< without its number of repetitions, which follows; 0: it is not idle
};

/// Reads what LogWriter wrote, in the same order. Reading past the end gives zeros, and `complete() == false`.
class LogReader {
 public:
  struct Head {
    std::string_view name;
    std::int64_t comm = 0;
    Facts facts;
  };
  explicit LogReader(Bytes log);
  [[nodiscard]] bool at_end() const { return position_ >= log_.size(); }
  [[nodiscard]] bool complete() const { return complete_; }
  Head begin();
  std::int64_t number();
  ByteView data(std::size_t size);
  /// Ends the entry; as often as an idle one was repeated, the next one is the same again.
  void end(bool idle);

 private:
  Bytes log_;
  std::vector<std::string> names_;
  std::size_t position_ = 0;
  std::size_t begin_ = 0;
  std::uint64_t repetitions_ = 0;  ///< left of the idle entry that is read again
  bool complete_ = true;
};

/// `raw`, compressed, with its length and a CRC.
Bytes seal(ByteView raw);
/// What was given to seal(). Code::corrupt: these are not the bytes that it made.
Result<Bytes> unseal(ByteView sealed);

}  // namespace backstay::comm
