// anyrank write|read RANKS...: a block-decomposed field with halos, a distributed list of particles and replicated
// scalars, on however many ranks it is started. `write` makes three checkpoints; `read` resumes; both print one line
// with what the whole of the data is, whoever holds it: hash of the field, hash of the particles, step.
//
// anyrank private-write, private-read: the same with a vector that belongs to its rank.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace {

constexpr std::array<std::int64_t, 3> global{24, 18, 20};
constexpr std::int64_t halo = 2;
constexpr std::int64_t all_particles = 1003;

struct Particle {
  std::int64_t id;
  double x[3];
};

/// A sum over elements, each mixed with its place, so that the order in which ranks add does not matter.
std::uint64_t mix(std::uint64_t place, double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  std::uint64_t h = (place + 1) * 0x9e3779b97f4a7c15ULL ^ bits;
  h ^= h >> 31;
  h *= 0xbf58476d1ce4e5b9ULL;
  return h ^ (h >> 29);
}

std::uint64_t sum(std::uint64_t mine) {
  std::uint64_t all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

/// A part of the field with its halos.
class Field {
 public:
  Field(int rank, int size) {
    std::array<int, 3> grid{}, at{};
    MPI_Dims_create(size, 3, grid.data());
    for (int d = 2, left = rank; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      at[i] = left % grid[i];
      left /= grid[i];
      lower_.insert(lower_.begin(), global[i] * at[i] / grid[i]);
      upper_.insert(upper_.begin(), global[i] * (at[i] + 1) / grid[i]);
    }
    for (std::size_t d = 0; d < 3; ++d) shape_.push_back(upper_[d] - lower_[d] + 2 * halo);
    values_.assign(static_cast<std::size_t>(shape_[0] * shape_[1] * shape_[2]), -99);
  }
  void protect(backstay::Session& session) {
    session.protect("field", backstay::inside(values_.data(), shape_, {halo, halo, halo}),
                    backstay::block({global.begin(), global.end()}, lower_, upper_), "m s-1");
  }
  void fill(int step) {
    each([&](std::uint64_t place, double& value) { value = static_cast<double>(place) * 0.37 + step; });
  }
  std::uint64_t hash() {
    std::uint64_t h = 0;
    each([&](std::uint64_t place, double& value) { h += mix(place, value); });
    return sum(h);
  }

 private:
  template <class F>
  void each(F&& body) {
    for (auto i = lower_[0]; i < upper_[0]; ++i)
      for (auto j = lower_[1]; j < upper_[1]; ++j)
        for (auto k = lower_[2]; k < upper_[2]; ++k) {
          const auto here =
              ((i - lower_[0] + halo) * shape_[1] + j - lower_[1] + halo) * shape_[2] + k - lower_[2] + halo;
          body(static_cast<std::uint64_t>((i * global[1] + j) * global[2] + k),
               values_[static_cast<std::size_t>(here)]);
        }
  }
  backstay::Extents lower_, upper_, shape_;
  std::vector<double> values_;
};

/// Uneven on purpose: rank 0 has none.
std::vector<Particle> some_particles(int rank, int size, int step) {
  std::vector<Particle> out;
  for (std::int64_t id = 0; id < all_particles; ++id) {
    const bool mine = size == 1 || (rank > 0 && id * id / all_particles % (size - 1) == rank - 1);
    if (mine) out.push_back({id, {0.5 * static_cast<double>(id), static_cast<double>(step), -1}});
  }
  return out;
}

std::uint64_t hash_of(const std::vector<Particle>& particles) {
  std::uint64_t h = 0;
  for (const auto& p : particles)
    for (double x : p.x) h += mix(static_cast<std::uint64_t>(p.id), x);
  return sum(h);
}

}  // namespace

template <>
struct backstay::describe<Particle> {
  static constexpr auto members =
      std::make_tuple(backstay::member("id", &Particle::id), backstay::member("x", &Particle::x));
};

namespace {

void run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  backstay::Session session(argc, argv);
  const int rank = session.rank(), size = session.size();
  Field field(rank, size);
  std::vector<Particle> particles;
  int step = 0;
  std::vector<int> own(3, rank);
  session.protect("step", step);
  field.protect(session);
  session.protect("particles", particles, backstay::distributed_list());
  if (what.starts_with("private")) session.protect("own", own);

  if (what.ends_with("write")) {
    for (step = 1; step <= 3; ++step) {
      field.fill(step);
      particles = some_particles(rank, size, step);
      session.checkpoint(backstay::now);
    }
    --step;
    session.wait();
    if (session.status().failed > 0) throw std::runtime_error(session.status().last_error);
  } else if (!session.resume()) {
    throw std::runtime_error("there was nothing to resume from");
  }
  const auto of_field = field.hash(), of_particles = hash_of(particles), count = sum(particles.size());
  if (rank == 0)
    std::printf("field %016llx particles %016llx of %llu step %d\n", static_cast<unsigned long long>(of_field),
                static_cast<unsigned long long>(of_particles), static_cast<unsigned long long>(count), step);
}

/// What `run` says when it fails; empty when it does not. The session is gone by then, MPI is not.
std::string sentence_of(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string sentence = sentence_of(argc, argv);
  // mpirun ends the job at the first exit and may lose what other ranks printed, so each leaves its sentence in a file.
  const char* directory = std::getenv("SENTENCES_OF_ANYRANK");
  if (directory != nullptr && !sentence.empty())
    std::ofstream(std::string(directory) + "/" + std::to_string(rank)) << sentence << '\n';
  if (!sentence.empty()) std::fprintf(stderr, "anyrank: %s\n", sentence.c_str());
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return sentence.empty() ? 0 : 3;
}
