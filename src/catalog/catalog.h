// Which lines exist in a store and which are whole; the steps of the commit; retention.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/shared_bytes.h"
#include "format/manifest.h"
#include "store/store.h"

namespace backstay::catalog {

/// "partner/line-00000042"
std::string line_dir(const std::string& level, std::uint64_t line);

/// What one store holds of one line.
struct Holding {
  std::uint64_t line = 0;
  SharedBytes manifest;                        ///< as read; empty: not committed here
  std::map<std::string, std::uint64_t> files;  ///< name -> size, the manifest not counted
  std::string unreadable{};  ///< why the manifest, or the directory that may have one, could not be read
};

/// All line directories of a level in this store, oldest first. A store without the level's directory holds none.
Result<std::vector<Holding>> scan(store::Store& store, const std::string& level);

/// What a new job does first with a store that it writes to: what it sees there may be in the page cache only, as the
/// job before it was killed between a change and its sync. Then nothing that is built on it outlives it (decision 12).
Result<void> make_names_durable(store::Store& store, const std::string& level);

// The steps of a commit in one store, taken by one rank of those that share it. Between them the ranks agree
// (engine/line_writer). Invariant: a name `manifest` exists only after every byte that it lists is durable in every
// store, and the files of a directory are overwritten only after its `manifest` is durably gone.

/// A directory for the line: a retired one under a new name, so that its pages are used again, or a new one. Those of
/// the lines in `whole` are left alone even if this store has no manifest of them: a job that died between the renames
/// of two stores has left a line that is whole by the manifest of the other. Code::limit: nobody would find that number
/// again. One of that number with a manifest, of a line that is of no use, is set aside.
Result<void> prepare(store::Store& store, const std::string& level, std::uint64_t line,
                     const std::vector<std::uint64_t>& whole = {});
/// A directory for a line that is to be rebuilt here, or for a new one: what stands in its place and is none, or cannot
/// be read, gets the name line-N.aside-1, or the next one that is free.
Result<void> make_room(store::Store& store, const std::string& level, std::uint64_t line);
/// Removes the line's directory, so that a full store has its room back; one that may not be removed is set aside as by
/// make_room(), so that no later line takes it. Only for a line whose manifest has not been
/// renamed in any store: where one is, it is of another line of that number, which stays.
Result<void> give_up(store::Store& store, const std::string& level, std::uint64_t line);
/// Removes what a recycled directory holds beyond `files`, makes the names of the files durable, and writes
/// `manifest.part` durably.
Result<void> stage(store::Store& store, const std::string& level, std::uint64_t line, ByteView manifest,
                   const std::vector<std::string>& files);
/// The commit: renames `manifest.part` to `manifest`, durably.
Result<void> commit(store::Store& store, const std::string& level, std::uint64_t line);
/// Gives a committed line's manifest to a store that has its files again; durable.
Result<void> adopt(store::Store& store, const std::string& level, std::uint64_t line, ByteView manifest);
/// Takes the line back: its manifest is durably gone; the directory, if there is one, stays for prepare().
Result<void> retire(store::Store& store, const std::string& level, std::uint64_t line);
/// Removes the retired and given-up directories of the level, or sets them aside, but for `spare` of them and those of
/// lines in `whole`.
Result<void> sweep(store::Store& store, const std::string& level, std::size_t spare,
                   const std::vector<std::uint64_t>& whole = {});

/// The lines to retire when the newest `keep` of `whole` are to stay. keep >= 1: the newest is never among them.
std::vector<std::uint64_t> surplus(std::vector<std::uint64_t> whole, std::size_t keep);

}  // namespace backstay::catalog
