// The table of a data file: all rows, and those of one rank.
#include <algorithm>
#include <set>

#include "format/data_file.h"
#include "format/manifest.h"
#include "samples.h"
#include "target.h"

namespace backstay::fuzz {

namespace {
using format::Segment;
using format::Table;

Table only(Table table, int rank) {
  std::erase_if(table.segments, [&](const Segment& s) { return s.rank != rank; });
  return table;
}

/// decode_rows() promises this of a table that encode_table() wrote.
void check_rows(ByteView written, const Table& all) {
  std::set<int> ranks{0, 1};
  for (const auto& s : all.segments)
    for (const int rank : {s.rank, s.rank / 10}) ranks.insert(rank);
  std::size_t left = 20;
  for (const int rank : ranks) {
    if (left-- == 0) return;
    const auto rows = format::decode_rows(written, rank);
    expect(rows.ok(), "the rows of a rank can be read where the table can");
    expect(only(*rows, rank) == only(all, rank), "the rows of a rank are those of the table");
  }
}
}  // namespace

void try_input(ByteView input) {
  const auto rows = format::decode_rows(input, 0);
  const auto table = format::decode_table(input);
  expect(rows.ok() || rows.failure().code == Code::corrupt, "bad rows are corrupt");
  if (!table) {
    expect(table.failure().code == Code::corrupt, "a bad table is corrupt");
    return;
  }
  const Bytes written = format::encode_table(*table);
  const auto again = format::decode_table(written);
  expect(again.ok() && *again == *table, "a table comes back as it was");
  check_rows(written, *table);
  for (std::size_t i = 0; i < std::min<std::size_t>(table->segments.size(), 4); ++i)
    (void)format::check_storable(table->segments[i]).ok();
}

Bytes repaired(Bytes input) { return input; }

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const auto& table : sample_tables()) out.push_back(format::encode_table(table));
  return out;
}

}  // namespace backstay::fuzz
