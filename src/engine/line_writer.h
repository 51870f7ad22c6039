// Writes one line at one level: the way of a capture to bytes that survive, and the commit.
#pragma once

#include <string>
#include <vector>

#include "engine/level.h"
#include "engine/staging.h"

namespace backstay::engine {

/// A capture on its way.
struct Checkpoint {
  std::uint64_t line = 0;
  std::uint64_t call = 0;
  double time = 0;                     ///< seconds since 1970, of the last rank's capture
  std::vector<bool> levels;            ///< where it is to go
  Result<void> captured;               ///< this rank's failure, carried to where all ranks hear of it
  std::vector<std::string> signature;  ///< of the regions, to be compared among ranks
  Capture capture;
  bool is_single = false;              ///< its memory is freed when it is done, and not used again
  bool of_statics = false;             ///< of the static regions, for the levels' companions (engine/statics.h)
  std::vector<std::uint64_t> statics;  ///< for each level the line of its static regions; empty, or 0: there are none
  std::uint64_t static_line = 0;       ///< of those, at the level where it is being written
  double static_time = 0;              ///< when that was saved; 0: not known
  std::string static_file;             ///< of that one: see Level::own_files
};

struct Job {
  std::string id;  ///< 16 hexadecimal digits
  std::string program;
};

/// Collective over `comm`, on one thread. Writes, syncs and commits the line at this level; then takes back the lines
/// beyond `keep`. Returns the bytes of the whole line.
///
/// Invariant: when this fails or the program dies anywhere inside, every line of `level.whole` is as it was. The order:
/// directory made (leader) | agree | data files written and synced, copies too | agree, exchanging sizes and CRCs |
/// names synced, manifest.part written and synced (leader) | agree | renamed, synced (leader) | agree | old lines
/// retired. The first rename happens after every byte of every rank is durable; the first byte of an old line is
/// overwritten (by a later call) after its manifest is durably gone.
Result<std::uint64_t> write_line(Level& level, Checkpoint& checkpoint, const Job& job, const Topology& topology,
                                 comm::Comm& comm);

/// Takes back the lines beyond the newest `keep`. Local to each rank; failures are returned and change nothing else.
Result<void> retire_surplus(Level& level, std::size_t keep);

}  // namespace backstay::engine
