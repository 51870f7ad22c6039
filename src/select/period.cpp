#include "select/period.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace backstay::select {

namespace {
using Symbols = std::vector<int>;

/// A part at its place in the sequence.
struct Item {
  int symbol = 0;         ///< a computation, or from first_loop_ on a loop
  std::size_t begin = 0;  ///< calls
  std::size_t end = 0;
  std::int64_t rounds = 1;     ///< of a loop
  std::size_t last_round = 0;  ///< where it begins
  std::size_t next_to_last = 0;
};

struct Loop {
  Symbols body;
  std::int64_t fewest = INT64_MAX, most = 0;
};

class Folding {
 public:
  Folding(const std::vector<int>& calls, const std::vector<bool>& left_out, std::size_t longest)
      : first_loop_(static_cast<int>(left_out.size())), longest_(longest) {
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (!left_out[static_cast<std::size_t>(calls[i])]) items_.push_back({calls[i], i, i + 1, 1, i, i});
  }

  std::optional<Period> run() {
    // The shortest first, as loops are inside loops; what has become one symbol may repeat with less.
    for (std::size_t length = 1; 2 * length <= items_.size() && length <= longest_;)
      length = fold(length) ? 1 : length + 1;
    for (const auto& item : items_) note_rounds(item);
    return outermost();
  }

 private:
  [[nodiscard]] bool is_loop(int symbol) const { return symbol >= first_loop_; }
  [[nodiscard]] const Loop& loop(int symbol) const { return loops_[static_cast<std::size_t>(symbol - first_loop_)]; }

  int symbol_of(const Symbols& body) {
    if (body.size() == 1 && is_loop(body.front())) return body.front();  // two of a kind are one
    const auto [known, is_new] = symbols_.try_emplace(body, first_loop_ + static_cast<int>(loops_.size()));
    if (is_new) {
      loops_.push_back({body});
      by_first_.emplace(body.front(), known->second);
      lengths_.insert(body.size());
    }
    return known->second;
  }

  /// Makes loops of what repeats itself with this length, and of what is known as the body of such a loop. True: of
  /// something.
  bool fold(std::size_t length) {
    const bool repeats = fold_repetitions(length);
    return fold_single_rounds(length) || repeats;
  }

  bool fold_repetitions(std::size_t length) {
    const std::size_t count = items_.size();
    std::vector<std::size_t> same(count + 1, 0);  // items in a row that are as those `length` further on
    bool any = false;
    for (std::size_t i = count - length; i-- > 0;) {
      same[i] = items_[i].symbol == items_[i + length].symbol ? same[i + 1] + 1 : 0;
      any = any || same[i] >= length;
    }
    if (!any) return false;
    std::vector<Item> folded;
    for (std::size_t i = 0; i < count;) {
      const std::size_t rounds = same[i] / length + 1;
      if (rounds >= 2) {
        folded.push_back(folded_item(i, length, rounds));
        i += rounds * length;
      } else {
        folded.push_back(items_[i++]);
      }
    }
    items_ = std::move(folded);
    return true;
  }

  Item folded_item(std::size_t first, std::size_t length, std::size_t rounds) {
    Symbols body;
    for (std::size_t i = first; i < first + length; ++i) body.push_back(items_[i].symbol);
    const Item& last = items_[first + rounds * length - 1];
    const std::size_t before = first + (rounds - 2) * length;
    Item out{symbol_of(body), items_[first].begin, last.end, 0, items_[before + length].begin, items_[before].begin};
    if (out.symbol == body.front()) {  // loops that follow each other
      for (std::size_t i = first; i < first + rounds; ++i) out.rounds += items_[i].rounds;
      out.last_round = last.last_round;
      out.next_to_last = last.rounds > 1 ? last.next_to_last : items_[before].last_round;
      return out;
    }
    for (std::size_t i = first; i < first + rounds * length; ++i) note_rounds(items_[i]);
    out.rounds = static_cast<std::int64_t>(rounds);
    return out;
  }

  /// A loop that went round once is still one. True: there was such a one.
  bool fold_single_rounds(std::size_t length) {
    if (!lengths_.contains(length)) return false;
    std::vector<Item> folded;
    bool any = false;
    for (std::size_t i = 0; i < items_.size();) {
      const int symbol = loop_at(i, length);
      if (symbol < 0) {
        folded.push_back(items_[i++]);
        continue;
      }
      any = true;
      for (std::size_t j = i; j < i + length; ++j) note_rounds(items_[j]);
      folded.push_back({symbol, items_[i].begin, items_[i + length - 1].end, 1, items_[i].begin, items_[i].begin});
      i += length;
    }
    items_ = std::move(folded);
    return any;
  }

  /// The loop whose body of that length stands there; -1: none.
  [[nodiscard]] int loop_at(std::size_t i, std::size_t length) const {
    const auto [begin, end] = by_first_.equal_range(items_[i].symbol);
    for (auto it = begin; it != end; ++it) {
      const Symbols& body = loop(it->second).body;
      if (body.size() != length || items_.size() - i < length) continue;
      std::size_t j = 1;
      while (j < length && items_[i + j].symbol == body[j]) ++j;
      if (j == length) return it->second;
    }
    return -1;
  }

  void note_rounds(const Item& item) {
    if (!is_loop(item.symbol)) return;
    Loop& seen = loops_[static_cast<std::size_t>(item.symbol - first_loop_)];
    seen.fewest = std::min(seen.fewest, item.rounds);
    seen.most = std::max(seen.most, item.rounds);
  }

  /// The loop that covers most of the sequence among those that may be going on: less than two rounds have come since.
  [[nodiscard]] std::optional<Period> outermost() const {
    const Item* best = nullptr;
    const std::size_t end = items_.empty() ? 0 : items_.back().end;
    for (const auto& item : items_) {
      const std::size_t covered = item.end - item.begin;
      if (!is_loop(item.symbol) || item.rounds < 2) continue;
      if ((end - item.end) * static_cast<std::size_t>(item.rounds) >= 2 * covered) continue;
      if (best == nullptr || covered > best->end - best->begin) best = &item;
    }
    if (best == nullptr) return {};
    return Period{body_of(best->symbol), best->begin, best->rounds, best->next_to_last, best->last_round};
  }

  [[nodiscard]] std::vector<Part> body_of(int symbol) const {
    std::vector<Part> out;
    for (const int s : loop(symbol).body) {
      if (is_loop(s))
        out.push_back({-1, body_of(s), loop(s).fewest, loop(s).most});
      else
        out.push_back({s, {}, 0, 0});
    }
    return out;
  }

  int first_loop_;
  std::size_t longest_;
  std::vector<Item> items_;
  std::vector<Loop> loops_;
  std::map<Symbols, int> symbols_;              // of loops, by their bodies
  std::unordered_multimap<int, int> by_first_;  // the same by the first symbol of the body
  std::set<std::size_t> lengths_;               // of bodies
};
}  // namespace

std::optional<Period> find_period(const std::vector<int>& calls, const std::vector<bool>& only_reads,
                                  std::size_t longest) {
  auto of_all = Folding(calls, std::vector<bool>(only_reads.size(), false), longest).run();
  if (of_all && of_all->first <= calls.size() / 2) return of_all;
  auto of_some = Folding(calls, only_reads, longest).run();
  return of_some && (!of_all || of_some->first < of_all->first) ? of_some : of_all;
}

}  // namespace backstay::select
