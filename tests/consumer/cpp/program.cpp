// A program in C++ that uses an installed backstay: `program write DIR` and `program read DIR`, on the regions of the
// program in C. Either reads what the other wrote.
#include <backstay/backstay.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {
constexpr std::int64_t rows = 24, columns = 3, halo = 1;

struct Field {
  std::int64_t step = 0, first = 0, last = 0;
  std::vector<double> u, particles;
  double& at(std::int64_t row, std::int64_t column) {
    return u[static_cast<std::size_t>((row - first + halo) * (columns + 2 * halo) + column + halo)];
  }
};

double value_at(std::int64_t row, std::int64_t column) { return 0.1 * static_cast<double>(row * columns + column); }

void protect(backstay::Session& run, Field& f) {
  run.protect("step", f.step);
  run.protect("u", backstay::inside(f.u.data(), {f.last - f.first + 2 * halo, columns + 2 * halo}, {halo, halo}),
              backstay::block({rows, columns}, {f.first, 0}, {f.last, columns}), "m s-1");
  run.protect("particles", f.particles, backstay::distributed_list());
}

void fill(Field& f) {
  f.step = 41;
  for (auto row = f.first; row < f.last; ++row) {
    f.particles.push_back(static_cast<double>(row));
    for (std::int64_t c = 0; c < columns; ++c) f.at(row, c) = value_at(row, c);
  }
}

bool is_filled(Field& f) {
  Field wanted{0, f.first, f.last, std::vector<double>(f.u.size()), {}};
  fill(wanted);
  return f.step == wanted.step && f.u == wanted.u && f.particles == wanted.particles;
}

int work(int argc, char** argv) {
  backstay::Session run(argc, argv, {{"dir", argv[2]}, {"log", "quiet"}, {"every", "1000000"}});
  Field f;
  f.first = rows * run.rank() / run.size();
  f.last = rows * (run.rank() + 1) / run.size();
  f.u.resize(static_cast<std::size_t>((f.last - f.first + 2 * halo) * (columns + 2 * halo)));
  protect(run, f);
  if (std::string(argv[1]) == "read") return run.resume() && is_filled(f) ? 0 : 1;
  fill(f);
  if (run.checkpoint(backstay::now) != backstay::Outcome::taken) return 1;
  run.wait();
  return run.verify().damage.empty() ? 0 : 1;
}
}  // namespace

int main(int argc, char** argv) {
  try {
    return argc == 3 ? work(argc, argv) : 2;
  } catch (const backstay::Error& e) {
    std::fprintf(stderr, "code %d: %s\n", static_cast<int>(e.code()), e.what());
    return 1;
  }
}
