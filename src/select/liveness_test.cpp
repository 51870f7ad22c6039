#include "select/liveness.h"

#include <gtest/gtest.h>

#include <random>

namespace backstay::select {
namespace {

/// A program of random computations, which is repeated: its values are numbers that depend on all that was read.
struct Program {
  std::vector<Region> regions;
  std::vector<Effects> cycle;
};

using Memory = std::vector<std::vector<std::uint64_t>>;

Box random_box(std::mt19937& random, const std::vector<std::int64_t>& shape) {
  Box box;
  for (const auto extent : shape) {
    const auto a = static_cast<std::int64_t>(random()) % (extent + 1),
               b = static_cast<std::int64_t>(random()) % (extent + 1);
    box.push_back({std::min(a, b), std::max(a, b)});
  }
  return box;
}

Access random_access(std::mt19937& random, const std::vector<Region>& regions) {
  Access access;
  access.region = random() % regions.size();
  access.mode = static_cast<Mode>(random() % 4);
  const auto& shape = regions[access.region].shape;
  if (random() % 2 == 0) access.range = random_box(random, shape);
  if ((access.mode == Mode::read || access.mode == Mode::read_write) && random() % 2 == 0)
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto from = -static_cast<std::int64_t>(random() % 3);
      access.stencil.push_back({from, from + 1 + static_cast<std::int64_t>(random() % 3)});
    }
  return access;
}

Program random_program(unsigned seed) {
  std::mt19937 random(seed);
  Program program;
  for (std::size_t r = 0, count = 1 + random() % 4; r < count; ++r) {
    std::vector<std::int64_t> shape;
    for (std::size_t d = 0, dims = random() % 3; d < dims; ++d) shape.push_back(1 + random() % 6);
    program.regions.push_back({"r" + std::to_string(r), shape, 8});
  }
  for (std::size_t c = 0, count = 1 + random() % 6; c < count; ++c) {
    Computation computation{"c" + std::to_string(c), {}};
    for (std::size_t a = 0, accesses = 1 + random() % 4; a < accesses; ++a)
      computation.accesses.push_back(random_access(random, program.regions));
    program.cycle.push_back(*effects_of(computation, program.regions));
  }
  return program;
}

std::vector<std::size_t> indices_of(const BoxSet& set, const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> out;
  std::size_t size = 1;
  for (const auto extent : shape) size *= static_cast<std::size_t>(extent);
  for (std::size_t i = 0; i < size; ++i) {
    Box element;
    std::size_t rest = i;
    for (const auto extent : shape) {
      const auto at = static_cast<std::int64_t>(rest % static_cast<std::size_t>(extent));
      rest /= static_cast<std::size_t>(extent);
      element.push_back({at, at + 1});
    }
    if (!set.in(element).empty()) out.push_back(i);
  }
  return out;
}

Memory memory_for(const Program& program) {
  Memory memory;
  for (const auto& region : program.regions) {
    std::size_t size = 1;
    for (const auto extent : region.shape) size *= static_cast<std::size_t>(extent);
    for (memory.emplace_back(); memory.back().size() < size;) memory.back().push_back(memory.back().size() + 1);
  }
  return memory;
}

/// Elements that are only perhaps written are so where a number of their own says it.
void run(const Program& program, std::size_t step, Memory& memory) {
  const auto& effects = program.cycle[step % program.cycle.size()];
  std::uint64_t sum = step;
  for (const auto& effect : effects)
    for (const auto i : indices_of(effect.reads, program.regions[effect.region].shape))
      sum = (sum + memory[effect.region][i]) * 0x9e3779b97f4a7c15;
  for (const auto& effect : effects) {
    const auto& shape = program.regions[effect.region].shape;
    for (const auto i : indices_of(effect.overwrites, shape)) memory[effect.region][i] = sum + i;
    BoxSet perhaps = effect.changes;
    perhaps.remove(effect.overwrites);
    for (const auto i : indices_of(perhaps, shape))
      if ((sum >> (i % 60) & 1) != 0) memory[effect.region][i] = sum - i;
  }
}

Elements all_of(const Program& program) {
  Elements all;
  for (const auto& region : program.regions) all.emplace_back(box_of(region.shape));
  return all;
}

void copy(const Program& program, std::size_t region, const BoxSet& what, const Memory& from, Memory& to) {
  for (const auto i : indices_of(what, program.regions[region].shape)) to[region][i] = from[region][i];
}

constexpr std::uint64_t lost = 0xdeadbeef;

TEST(liveness, a_program_goes_on_from_what_was_saved_as_it_was_met) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Program program = random_program(seed);
    const std::size_t steps = program.cycle.size(), place = seed % steps + steps;
    Memory memory = memory_for(program), saved = memory;
    for (auto& region : saved) std::fill(region.begin(), region.end(), lost);
    for (std::size_t step = 0; step < place; ++step) run(program, step, memory);
    OpenCheckpoint checkpoint(all_of(program));
    Memory on = memory;
    std::int64_t bytes = 0;
    std::size_t step = place;
    const auto save = [&](const auto& parts) {
      for (const auto& [region, what] : parts) {
        copy(program, region, what, on, saved);
        bytes += what.volume() * program.regions[region].element;
      }
    };
    for (; step < place + 2 * steps && !checkpoint.is_decided(); ++step) {
      save(checkpoint.meet(program.cycle[step % steps]));
      run(program, step, on);
    }
    // In one turn all is met that the program ever touches: the rest is never read.
    const auto live = live_in_cycle(program.cycle, program.regions.size());
    ASSERT_EQ(bytes, bytes_of(live[place % steps], program.regions)) << "seed " << seed;
    Memory resumed = saved;
    for (std::size_t i = place; i < place + 4 * steps; ++i) run(program, i, resumed);
    for (; step < place + 4 * steps; ++step) run(program, step, on);
    for (std::size_t r = 0; r < program.regions.size(); ++r) {
      BoxSet touched;
      for (const auto& effects : program.cycle)
        for (const auto& effect : effects) {
          if (effect.region != r) continue;
          touched.add(effect.reads);
          touched.add(effect.overwrites);
        }
      for (const auto i : indices_of(touched, program.regions[r].shape))
        ASSERT_EQ(resumed[r][i], on[r][i]) << "seed " << seed;
    }
  }
}

TEST(liveness, each_live_element_is_needed) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Program program = random_program(seed);
    const std::size_t steps = program.cycle.size(), place = seed % steps;
    const auto live = live_in_cycle(program.cycle, program.regions.size());
    for (std::size_t r = 0; r < program.regions.size(); ++r)
      for (const auto i : indices_of(live[place][r], program.regions[r].shape)) {
        bool is_read = false, is_over = false;
        for (std::size_t step = place; step < place + steps && !is_read && !is_over; ++step)
          for (const auto& effect : program.cycle[step % steps]) {
            if (effect.region != r) continue;
            const auto has = [&](const BoxSet& set) {
              const auto all = indices_of(set, program.regions[r].shape);
              return std::find(all.begin(), all.end(), i) != all.end();
            };
            is_read = is_read || has(effect.reads);
            is_over = !is_read && has(effect.overwrites);
          }
        ASSERT_TRUE(is_read) << "seed " << seed << ", region " << r << ", element " << i;
      }
  }
}

TEST(liveness, what_nobody_meets_is_saved_at_the_end_of_waiting) {
  OpenCheckpoint checkpoint({BoxSet(Box{{0, 10}}), BoxSet(Box{{0, 4}})});
  Effect effect;
  effect.overwrites.add(Box{{2, 10}});
  EXPECT_TRUE(checkpoint.meet({effect}).empty());
  EXPECT_FALSE(checkpoint.is_decided());
  const auto rest = checkpoint.rest();
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].second.volume(), 2);
  EXPECT_EQ(rest[1].second.volume(), 4);
  EXPECT_TRUE(checkpoint.is_decided());
  EXPECT_TRUE(checkpoint.rest().empty());
}

}  // namespace
}  // namespace backstay::select
