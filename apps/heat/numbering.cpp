#include "numbering.h"

#include <algorithm>
#include <utility>

namespace heat {

std::vector<OuterFace> outer_faces(const std::vector<Element>& elements) {
  std::vector<std::pair<std::array<Global, 4>, OuterFace>> all;
  all.reserve(elements.size() * faces.size());
  for (std::size_t e = 0; e < elements.size(); ++e) {
    for (std::size_t f = 0; f < faces.size(); ++f) {
      std::array<Global, 4> key;
      for (std::size_t c = 0; c < 4; ++c) key[c] = elements[e][static_cast<std::size_t>(faces[f][c])];
      std::sort(key.begin(), key.end());
      all.push_back({key, {e, f}});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<OuterFace> outer;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool as_before = i > 0 && all[i].first == all[i - 1].first;
    const bool as_next = i + 1 < all.size() && all[i].first == all[i + 1].first;
    if (!as_before && !as_next) outer.push_back(all[i].second);
  }
  std::sort(outer.begin(), outer.end(), [](const OuterFace& a, const OuterFace& b) {
    return std::pair(a.element, a.face) < std::pair(b.element, b.face);
  });
  return outer;
}

namespace {

/// Each once, in the order of the elements.
std::vector<Global> vertices_of(const std::vector<Element>& elements) {
  std::vector<std::pair<Global, std::size_t>> seen;
  seen.reserve(elements.size() * 8);
  for (const Element& e : elements) {
    for (Global v : e) seen.push_back({v, seen.size()});
  }
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
             seen.end());
  std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Global> vertices;
  vertices.reserve(seen.size());
  for (const auto& [vertex, at] : seen) vertices.push_back(vertex);
  return vertices;
}

/// A vertex and the rank that owns it.
using Owned = std::pair<Global, int>;

/// Of the vertices on outer faces: nobody else has an element at any other. Whoever has some at a vertex tells that
/// vertex's clerk, the rank that its number falls to, and hears who else did.
std::vector<Owned> owners_of_outer(Wire& wire, const std::vector<Element>& elements,
                                   const std::vector<OuterFace>& outer) {
  std::vector<Global> asked;
  for (const OuterFace& o : outer) {
    for (int corner : faces[o.face]) asked.push_back(elements[o.element][static_cast<std::size_t>(corner)]);
  }
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());

  Lists<Global> to_clerk(static_cast<std::size_t>(wire.size()));
  for (Global v : asked) to_clerk[static_cast<std::size_t>(v % wire.size())].push_back(v);
  const Lists<Global> at_clerk = wire.deal(to_clerk);

  std::vector<Owned> lowest;
  for (std::size_t r = 0; r < at_clerk.size(); ++r) {
    for (Global v : at_clerk[r]) lowest.push_back({v, static_cast<int>(r)});
  }
  std::sort(lowest.begin(), lowest.end());
  Lists<int> answers(at_clerk.size());
  for (std::size_t r = 0; r < at_clerk.size(); ++r) {
    for (Global v : at_clerk[r])
      answers[r].push_back(std::lower_bound(lowest.begin(), lowest.end(), Owned{v, 0})->second);
  }
  const Lists<int> heard = wire.deal(answers);
  std::vector<Owned> owners;
  for (std::size_t r = 0; r < to_clerk.size(); ++r) {
    for (std::size_t i = 0; i < to_clerk[r].size(); ++i) owners.push_back({to_clerk[r][i], heard[r][i]});
  }
  std::sort(owners.begin(), owners.end());
  return owners;
}

/// Index of each vertex in `vertices`, found by vertex.
class Finder {
 public:
  explicit Finder(const std::vector<Global>& vertices) {
    for (Global v : vertices) sorted_.push_back({v, static_cast<int>(sorted_.size())});
    std::sort(sorted_.begin(), sorted_.end());
  }
  [[nodiscard]] int at(Global vertex) const {
    return std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(vertex, 0))->second;
  }

 private:
  std::vector<std::pair<Global, int>> sorted_;
};

/// The numbers of vertices of other ranks, from their owners.
std::vector<Global> ask_for_numbers(Wire& wire, const Finder& finder, Global first, const Lists<Global>& of_others) {
  Lists<Global> answers = wire.exchange(of_others);
  for (auto& list : answers) {
    for (Global& v : list) v = first + finder.at(v);
  }
  std::vector<Global> numbers;
  for (const auto& list : wire.exchange(answers)) numbers.insert(numbers.end(), list.begin(), list.end());
  return numbers;
}

}  // namespace

Numbering make_numbering(Wire& wire, const std::vector<Element>& elements, const std::vector<OuterFace>& outer) {
  const std::vector<Owned> owners = owners_of_outer(wire, elements, outer);
  Numbering n;
  Lists<Global> of_others(static_cast<std::size_t>(wire.size()));
  for (Global v : vertices_of(elements)) {
    const auto found = std::lower_bound(owners.begin(), owners.end(), Owned{v, 0});
    if (found == owners.end() || found->first != v || found->second == wire.rank()) {
      n.vertices.push_back(v);
    } else {
      of_others[static_cast<std::size_t>(found->second)].push_back(v);
    }
  }
  n.owned = static_cast<int>(n.vertices.size());
  for (const auto& list : of_others) n.vertices.insert(n.vertices.end(), list.begin(), list.end());
  n.offsets = make_offsets(wire, n.owned);

  const Finder finder(n.vertices);
  const Global first = n.offsets[static_cast<std::size_t>(wire.rank())];
  for (int i = 0; i < n.owned; ++i) n.numbers.push_back(first + i);
  const std::vector<Global> others = ask_for_numbers(wire, finder, first, of_others);
  n.numbers.insert(n.numbers.end(), others.begin(), others.end());
  n.nodes.resize(elements.size());
  for (std::size_t e = 0; e < elements.size(); ++e) {
    for (std::size_t c = 0; c < 8; ++c) n.nodes[e][c] = finder.at(elements[e][c]);
  }
  return n;
}

}  // namespace heat
