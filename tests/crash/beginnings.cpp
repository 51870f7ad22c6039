// beginnings HOW: what a program begins with, when a rank is lost before a line is whole. All ranks count to 20, and
// call checkpoint() at each fifth step only; rank 0 prints "sum S" at the end.
//
// `inside`: memory that is set up before loop() and protected in its body. `static`: a static table that the body adds
// to when nothing was resumed. `replay`: as `inside`, with replay(). `twice`: half of the steps in one loop(), the
// other half in another one, with all protected before. `sessions`: a second session at the end.
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace {
struct Numbers {
  int step = 0;
  std::vector<double> sums = std::vector<double>(1000, 1), table = std::vector<double>(100, 2);
};

void count_to(int end, Numbers& numbers, backstay::Session& session, const backstay::Computation* update) {
  const auto add = [&] {
    double mine = numbers.sums[0] + numbers.table[static_cast<std::size_t>(numbers.step)], all = 0;
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
  const auto protect = [&] {
    session.protect("sums", numbers.sums);
    if (how != "replay") session.protect("step", numbers.step);
  };
  if (how == "twice") protect();
  if (how == "static") session.protect_static("table", numbers.table);
  for (const int end : how == "twice" ? std::vector{10, 20} : std::vector{20}) {
    session.loop([&] {
      if (how != "twice") protect();
      backstay::Computation update;
      if (how == "replay") {
        numbers.step = 0;
        update = session.declare("update", {backstay::updates("sums")});
        session.replay();
      } else {
        const bool resumed = static_cast<bool>(session.resume());
        if (how == "static" && !resumed)
          for (auto& entry : numbers.table) entry += session.rank();
      }
      count_to(end, numbers, session, how == "replay" ? &update : nullptr);
    });
  }
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
