// beginnings HOW: what a program begins with, when a rank is lost before a line is whole. All ranks count to 20, and
// call checkpoint() at each fifth step only; rank 0 prints "sum S" at the end.
//
// `inside`: memory that is set up before loop() and protected in its body. `static`: a static table that the body adds
// to when nothing was resumed. `replay`: as `inside`, with replay(). `twice`: half of the steps in one loop(), the
// other half in another one, with all protected before. `fallback`: the first loop() ends by an exception of all ranks.
// `late`: memory that is protected behind resume(). `first`: memory that the body protects when it runs for the first
// time only. `size`: one rank protects more then.
// `callbacks`: they save an object that is not there before resume(). `init`: behind loop(). `sessions`: a
// second session at the end.
#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace {
struct Particle {
  double weight;
  int kind;
};

struct Numbers {
  int step = 0;
  double growth = 1;  // of particles
  std::vector<Particle> particles = {{1, 0}, {2, 1}};
  std::vector<double> sums = std::vector<double>(1000, 1), table = std::vector<double>(100, 2);
};

void count_to(int end, Numbers& numbers, backstay::Session& session, const backstay::Computation* update) {
  const auto add = [&] {
    for (auto& particle : numbers.particles) particle.weight *= numbers.growth;
    double mine = numbers.particles[1].weight + numbers.sums[0] + numbers.table[static_cast<std::size_t>(numbers.step)],
           all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, session.comm());
    for (auto& sum : numbers.sums) sum = 0.9 * sum + all;
  };
  while (numbers.step < end) {
    if (numbers.step % 5 == 4) session.checkpoint();
    if (update != nullptr)
      session.compute(*update, add);
    else
      add();
    ++numbers.step;
  }
}

void work(backstay::Session& session, const std::string& how) {
  Numbers numbers;
  numbers.sums[0] += session.rank();
  const bool in_two = how == "twice" || how == "fallback";
  bool is_first = true;
  std::unique_ptr<double> tree;
  const auto protect = [&] {
    session.protect("sums", numbers.sums);
    if (how != "replay") session.protect("step", numbers.step);
    if (how == "inside") {
      session.protect("particles", numbers.particles);
      numbers.growth = 1.5;
    }
  };
  if (in_two) protect();
  if (how == "static") session.protect_static("table", numbers.table);
  for (const int end : in_two ? std::vector{10, 20} : std::vector{20}) {
    const auto body = [&] {
      if (!in_two) protect();
      std::vector<double> fixed(is_first || session.rank() != 2 ? 5 : 7);
      if (how == "size")
        session.protect("fixed", backstay::array(fixed.data(), {static_cast<std::int64_t>(fixed.size())}));
      if (how == "first" && is_first) session.protect("table", numbers.table);
      is_first = false;
      if (how == "callbacks")
        session.protect("tree", {[&] { return std::to_string(*tree); },
                                 [&](std::span<const std::byte> bytes) {
                                   const auto* text = reinterpret_cast<const char*>(bytes.data());
                                   tree = std::make_unique<double>(std::stod(std::string(text, bytes.size())));
                                 },
                                 {}});
      backstay::Computation update;
      if (how == "replay") {
        numbers.step = 0;
        update = session.declare("update", {backstay::updates("sums")});
        session.replay();
      } else {
        const bool resumed = static_cast<bool>(session.resume());
        if (how == "static" && !resumed)
          for (auto& entry : numbers.table) entry += session.rank();
        if (how == "late") session.protect("table", numbers.table);
        if (how == "callbacks" && !resumed) tree = std::make_unique<double>(session.rank());
      }
      count_to(end, numbers, session, how == "replay" ? &update : nullptr);
      if (how == "fallback" && numbers.step == 10) throw std::runtime_error("not this way");
    };
    try {
      session.loop(body);
    } catch (const std::runtime_error&) {
      if (how != "fallback" || numbers.step != 10) throw;
    }
  }
  if (how == "init") session.init([] {});
  if (session.rank() == 0) std::printf("sum %.17g\n", std::accumulate(numbers.sums.begin(), numbers.sums.end(), 0.0));
}
}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    for (int sessions = how == "sessions" ? 2 : 1; sessions > 0; --sessions) {
      backstay::Session session(MPI_COMM_WORLD);
      work(session, how);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "beginnings: %s\n", e.what());
    status = 3;
  }
  MPI_Finalize();
  return status;
}
