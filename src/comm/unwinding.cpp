#include "comm/unwinding.h"

#if defined(__ELF__) && !defined(__ARM_EABI__)
#include <unwind.h>

#include <cstdint>
#include <cstring>

namespace backstay::comm {

namespace {
/// The low half of a DW_EH_PE encoding: how a number is written.
enum Format : std::uint8_t {
  absolute = 0x00,
  uleb128 = 0x01,
  udata2 = 0x02,
  udata4 = 0x03,
  udata8 = 0x04,
  sleb128 = 0x09,
  sdata2 = 0x0a,
  sdata4 = 0x0b,
  sdata8 = 0x0c
};
constexpr std::uint8_t format_mask = 0x0f, aligned = 0x50, omitted = 0xff;

class Table {
 public:
  explicit Table(const unsigned char* at) : at_(at) {}
  [[nodiscard]] bool is_known() const { return known_; }
  [[nodiscard]] const unsigned char* at() const { return at_; }
  std::uint8_t byte() { return *at_++; }
  std::uint64_t uleb() {
    std::uint64_t value = 0;
    std::uint8_t part = 0;
    unsigned shift = 0;
    do {
      part = byte();
      if (shift < 64) value |= std::uint64_t{part & 0x7fU} << shift;
      shift += 7;
    } while ((part & 0x80U) != 0);
    return value;
  }
  /// What it is added to is left out.
  std::uint64_t number(std::uint8_t encoding) {
    if (encoding == aligned) known_ = false;
    switch (encoding & format_mask) {
      case uleb128:
      case sleb128:
        return uleb();  // the same length; signed ones are only skipped
      case absolute:
        return fixed<std::uintptr_t>();
      case udata2:
      case sdata2:
        return fixed<std::uint16_t>();
      case udata4:
      case sdata4:
        return fixed<std::uint32_t>();
      case udata8:
      case sdata8:
        return fixed<std::uint64_t>();
      default:
        known_ = false;
        return 0;
    }
  }

 private:
  template <class T>
  std::uint64_t fixed() {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  const unsigned char* at_;
  bool known_ = true;
};

/// From a call that the table of call sites of its function has not, the unwinder calls std::terminate. Where it has
/// it, with a clean-up say, that may still do so.
bool leads_on(const unsigned char* lsda, std::uintptr_t offset_in_function) {
  Table table(lsda);
  if (const auto base = table.byte(); base != omitted) table.number(base);
  if (const auto types = table.byte(); types != omitted) table.uleb();
  const auto encoding = table.byte();
  const auto size = table.uleb();
  const unsigned char* const end = table.at() + size;
  while (table.is_known() && table.at() < end) {
    const auto start = table.number(encoding), length = table.number(encoding);
    table.number(encoding);  // the landing pad
    table.uleb();            // the action
    if (offset_in_function >= start && offset_in_function < start + length) return true;
  }
  return !table.is_known();
}

bool leads_on(_Unwind_Context* frame) {
  const auto* const lsda = static_cast<const unsigned char*>(_Unwind_GetLanguageSpecificData(frame));
  if (lsda == nullptr) return true;
  int is_before = 0;
  const auto here = _Unwind_GetIPInfo(frame, &is_before) - (is_before != 0 ? 0 : 1);
  return leads_on(lsda, here - _Unwind_GetRegionStart(frame));
}

struct Walk {
  std::uintptr_t limit = 0;
  bool may_end = false;  ///< in the frame that was seen last
  bool ends = false;
};

/// From the inside outwards. What is called a frame's CFA here is where its own part of the stack ends towards the
/// inside, so the one in which `limit` lies is known when the next one is seen.
_Unwind_Reason_Code look(_Unwind_Context* frame, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  if (_Unwind_GetCFA(frame) > walk.limit) return _URC_END_OF_STACK;
  walk.ends = walk.may_end;
  walk.may_end = !leads_on(frame);
  return walk.ends ? _URC_END_OF_STACK : _URC_NO_REASON;
}
}  // namespace

bool ends_at_noexcept(const void* limit) {
  Walk walk{.limit = reinterpret_cast<std::uintptr_t>(limit)};
  _Unwind_Backtrace(look, &walk);
  return walk.ends;
}

}  // namespace backstay::comm
#else
bool backstay::comm::ends_at_noexcept(const void*) { return false; }
#endif
