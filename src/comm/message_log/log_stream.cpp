#include "comm/message_log/log_stream.h"

#include <isa-l.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/wire.h"

namespace backstay::comm {

namespace {
constexpr std::uint64_t seal_mark = 0x31474f4c59415453;  // "STAYLOG1"
constexpr std::size_t seal_size = 8 + 8 + 4;             // mark, length of what was sealed, CRC-32C of all but itself
constexpr std::uint64_t greatest_ratio = 1032;           // that Deflate reaches
constexpr std::size_t piece_of_stream = std::size_t{1} << 30;  // ISA-L counts bytes in 32 bits

/// Small numbers of either sign take one byte: the sign is the lowest bit, and each byte but the last has its highest
/// bit set.
void append_number(Bytes& out, std::int64_t n) {
  auto rest = (static_cast<std::uint64_t>(n) << 1) ^ static_cast<std::uint64_t>(n >> 63);
  for (; rest >= 0x80; rest >>= 7) out.push_back(static_cast<std::byte>(rest | 0x80));
  out.push_back(static_cast<std::byte>(rest));
}

std::uint32_t crc_of_sealed(ByteView sealed) {
  return crc32c(sealed.subspan(seal_size), crc32c(sealed.first(seal_size - 4)));
}

Failure damaged(const char* how) {
  return fail(Code::corrupt, "a message log is damaged: ", how, "; it cannot be replayed");
}
}  // namespace

void LogWriter::begin(const char* name, std::int64_t comm, const Facts& facts) {
  const auto [known, is_new] = numbers_of_names_.try_emplace(name, static_cast<std::int64_t>(names_.size()));
  if (is_new) names_.emplace_back(name);
  begin_ = out_.size();
  number(known->second);
  number(comm);
  number(static_cast<std::int64_t>(facts.size()));
  for (const auto fact : facts) number(fact);
}

void LogWriter::number(std::int64_t n) { append_number(out_, n); }

MutableByteView LogWriter::room(std::size_t size) {
  out_.resize(out_.size() + size);
  return MutableByteView(out_).last(size);
}

void LogWriter::end(bool idle) {
  if (!idle) {
    idle_end_ = 0;
    return;
  }
  const auto entry = ByteView(out_).subspan(begin_);
  if (idle_end_ != 0 && std::ranges::equal(entry, ByteView(out_).subspan(idle_begin_, idle_end_ - idle_begin_))) {
    out_.resize(begin_);
    std::uint64_t repetitions = 0;
    std::memcpy(&repetitions, out_.data() + idle_end_, sizeof repetitions);
    ++repetitions;
    std::memcpy(out_.data() + idle_end_, &repetitions, sizeof repetitions);
    return;
  }
  idle_begin_ = begin_;
  idle_end_ = out_.size();
  (void)room(sizeof(std::uint64_t));
}

Bytes LogWriter::take() {
  Bytes whole;
  append_number(whole, static_cast<std::int64_t>(names_.size()));
  for (const auto name : names_) {
    append_number(whole, static_cast<std::int64_t>(name.size()));
    const auto text = as_bytes(name);
    whole.insert(whole.end(), text.begin(), text.end());
  }
  whole.insert(whole.end(), out_.begin(), out_.end());
  *this = LogWriter();
  return whole;
}

LogReader::LogReader(Bytes log) : log_(std::move(log)) {
  for (auto names = number(); names > 0 && complete_; --names)
    names_.emplace_back(as_text(data(static_cast<std::size_t>(number()))));
}

LogReader::Head LogReader::begin() {
  begin_ = position_;
  Head head;
  const auto name = static_cast<std::uint64_t>(number());
  if (name >= names_.size()) complete_ = false;
  if (complete_) head.name = names_[name];
  head.comm = number();
  for (auto facts = number(); facts > 0 && complete_; --facts) head.facts.push_back(number());
  return head;
}

std::int64_t LogReader::number() {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < 64 && position_ < log_.size(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(log_[position_++]);
    n |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return static_cast<std::int64_t>(n >> 1) ^ -static_cast<std::int64_t>(n & 1);
  }
  complete_ = false;
  return 0;
}

ByteView LogReader::data(std::size_t size) {
  if (size > log_.size() - position_) {
    complete_ = false;
    return {};
  }
  position_ += size;
  return ByteView(log_).subspan(position_ - size, size);
}

void LogReader::end(bool idle) {
  if (!idle) return;
  const auto stored = data(sizeof repetitions_);
  if (!complete_) return;
  if (repetitions_ == 0) {
    std::memcpy(&repetitions_, stored.data(), sizeof repetitions_);
    if (repetitions_ == 0) return;
  } else if (--repetitions_ == 0) {
    return;
  }
  position_ = begin_;
}

Bytes seal(ByteView raw) {
  WireWriter front;
  front.number(seal_mark);
  front.number(static_cast<std::uint64_t>(raw.size()));
  Bytes out = front.message();
  out.resize(seal_size);
  isal_zstream stream{};  // isal_deflate_init leaves out what it is given to read
  isal_deflate_init(&stream);
  std::vector<std::uint8_t> work(ISAL_DEF_LVL1_DEFAULT);
  stream.level = 1;
  stream.level_buf = work.data();
  stream.level_buf_size = static_cast<std::uint32_t>(work.size());
  std::vector<std::byte> piece(std::size_t{1} << 18);
  std::size_t taken = 0;
  do {
    if (stream.avail_in == 0) {
      const auto next = raw.subspan(taken, std::min(piece_of_stream, raw.size() - taken));
      taken += next.size();
      // ISA-L does not write there.
      stream.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(next.data()));
      stream.avail_in = static_cast<std::uint32_t>(next.size());
      stream.end_of_stream = taken == raw.size() ? 1 : 0;
    }
    stream.next_out = reinterpret_cast<std::uint8_t*>(piece.data());
    stream.avail_out = static_cast<std::uint32_t>(piece.size());
    isal_deflate(&stream);
    out.insert(out.end(), piece.begin(), piece.end() - stream.avail_out);
  } while (stream.internal_state.state != ZSTATE_END);
  const std::uint32_t crc = crc_of_sealed(out);
  std::memcpy(out.data() + seal_size - sizeof crc, &crc, sizeof crc);
  return out;
}

Result<Bytes> unseal(ByteView sealed) {
  WireReader front(sealed);
  if (front.number<std::uint64_t>() != seal_mark) return damaged("it does not begin as one");
  const auto length = front.number<std::uint64_t>();
  const auto crc = front.number<std::uint32_t>();
  if (!front.complete()) return damaged("it is too short");
  if (crc_of_sealed(sealed) != crc) return damaged("its checksum is another one");
  if (length / greatest_ratio > sealed.size()) return damaged("its length cannot be");
  Bytes raw(length);
  inflate_state state{};
  isal_inflate_init(&state);
  auto rest = sealed.subspan(seal_size);
  std::size_t filled = 0;
  while (state.block_state != ISAL_BLOCK_FINISH) {
    const auto in = static_cast<std::uint32_t>(std::min(piece_of_stream, rest.size()));
    const auto room = static_cast<std::uint32_t>(std::min(piece_of_stream, raw.size() - filled));
    state.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(rest.data()));
    state.avail_in = in;
    state.next_out = reinterpret_cast<std::uint8_t*>(raw.data() + filled);
    state.avail_out = room;
    if (isal_inflate(&state) != ISAL_DECOMP_OK) return damaged("it cannot be decompressed");
    const bool stands_still = state.avail_in == in && state.avail_out == room;
    if (stands_still && state.block_state != ISAL_BLOCK_FINISH) return damaged("it ends too early");
    rest = rest.subspan(in - state.avail_in);
    filled += room - state.avail_out;
  }
  if (filled != raw.size()) return damaged("it is shorter than it says");
  return raw;
}

}  // namespace backstay::comm
