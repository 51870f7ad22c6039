// Every form of protect() that the table of docs/guide/cpp.md has, as it stands there, and the specialisations below
// it. `forms save` takes a checkpoint; `forms check`, on as many ranks, puts it back and compares all of it; `forms
// loop` goes back until a step succeeds; `forms less` leaves out what its computations overwrite.
#include <backstay/backstay.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

struct Particle {
  double x[3];
  int kind;
};
template <>
struct backstay::describe<Particle> {
  static constexpr auto members =
      std::make_tuple(backstay::member("x", &Particle::x), backstay::member("kind", &Particle::kind));
};

/// Has nodes elsewhere: neither a container nor trivially copyable.
struct Tree {
  std::vector<int> nodes;
  std::string to_bytes() const { return {reinterpret_cast<const char*>(nodes.data()), nodes.size() * sizeof(int)}; }
  static Tree from_bytes(std::string_view bytes) {
    Tree tree;
    tree.nodes.resize(bytes.size() / sizeof(int));
    std::memcpy(tree.nodes.data(), bytes.data(), bytes.size());
    return tree;
  }
};
template <>
struct backstay::state<Tree> {
  static std::string save(const Tree& tree) { return tree.to_bytes(); }
  static void load(Tree& tree, std::string_view bytes) { tree = Tree::from_bytes(bytes); }
};

struct Mesh {
  std::string edges;
  std::string to_bytes() const { return edges; }
  void take(const std::vector<std::span<const std::byte>>& all) {
    edges.clear();
    for (const auto& bytes : all) edges.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void take_share(const std::vector<std::span<const std::byte>>& all, int, int) { take(all); }
};

namespace {
constexpr std::int64_t nx = 5, ny = 4, stride = 7, capacity = 6, n_cells = 3, slots_a_cell = 4;

struct Data {
  double box[3] = {0, 0, 0};
  std::vector<Particle> particles;
  std::vector<double> u = std::vector<double>(3);
  double v[ny * stride] = {}, w[(ny + 2) * (nx + 2)] = {};
  Particle pool[capacity] = {};
  long count = 0;
  float slots[n_cells * slots_a_cell] = {};
  int counts[n_cells] = {};
  std::string title;
  std::mt19937_64 rng;
  Tree tree;
  Mesh mesh;
};

/// Of what is saved, all; of what is not (halos, padding, free slots), nothing.
std::string text_of(Data& d) {
  std::string text = d.title + " " + d.mesh.edges + " " + std::to_string(d.rng());
  const auto add = [&](double x) { text += " " + std::to_string(x); };
  const auto add_particle = [&](const Particle& p) { add(p.x[0] + 10 * p.x[1] + 100 * p.x[2] + 1000 * p.kind); };
  for (double x : d.box) add(x);
  for (double x : d.u) add(x);
  for (int x : d.tree.nodes) add(x);
  for (const Particle& p : d.particles) add_particle(p);
  for (long i = 0; i < d.count; ++i) add_particle(d.pool[i]);
  for (std::int64_t j = 0; j < ny; ++j)
    for (std::int64_t i = 0; i < nx; ++i) {
      add(d.v[j * stride + i]);
      add(d.w[(j + 1) * (nx + 2) + i + 1]);
    }
  for (std::int64_t c = 0; c < n_cells; ++c)
    for (std::int64_t k = 0; k < d.counts[c]; ++k) add(static_cast<double>(d.slots[c * slots_a_cell + k]));
  return text;
}

void fill(Data& d, int rank) {
  double next = rank;
  const auto number = [&] { return next += 0.5; };
  const auto particle = [&] { return Particle{{number(), number(), number()}, 7}; };
  for (double& x : d.box) x = 1.5;
  for (double& x : d.u) x = number();
  for (double& x : d.v) x = number();
  for (double& x : d.w) x = number();
  d.particles = {particle(), particle()};
  d.count = 4;
  for (Particle& p : d.pool) p = particle();
  for (float& x : d.slots) x = static_cast<float>(number());
  for (int c = 0; c < n_cells; ++c) d.counts[c] = c + 1;
  d.title = "größe";
  d.rng.seed(static_cast<std::uint64_t>(rank) + 3);
  d.tree.nodes = {4, 0, rank, -1};
  d.mesh.edges = std::string("a\0b", 3);
}

void protect(backstay::Session& run, Data& d) {
  auto& [box, particles, u, v, w, pool, count, slots, counts, title, rng, tree, mesh] = d;
  const std::int64_t n = 3;
  const backstay::Extents global{n * run.size()}, lower{n * run.rank()}, upper{n * (run.rank() + 1)};
  const auto save = [&] { return mesh.to_bytes(); };
  const auto load = [&](std::span<const std::byte> bytes) { mesh.take({bytes}); };
  const auto redistribute = [&](const std::vector<std::span<const std::byte>>& all, int rank, int size) {
    mesh.take_share(all, rank, size);
  };

  run.protect("box", box);
  run.protect("particles", particles);
  run.protect("u", u, backstay::block(global, lower, upper), "m s-1");
  run.protect("v", backstay::array(v, {ny, nx}, {stride, 1}));
  run.protect("w", backstay::inside(w, {ny + 2, nx + 2}, {1, 1}));
  run.protect("pool", backstay::used(pool, count, capacity));
  run.protect("cells", backstay::filled_slots(slots, counts, n_cells, slots_a_cell));
  run.protect("title", title);
  run.protect("rng", rng);
  run.protect("tree", tree);
  run.protect("mesh", backstay::Callbacks{save, load, redistribute});
}

/// Halves `dt` until the steps succeed: twice before the first line, which is taken at step 5, and twice after it.
int go_back(backstay::Session& run) {
  constexpr int steps = 20;
  int step = 0, starts = 0;
  double dt = 16, u = 0;
  const auto start = [&](double& x) { x = 100, ++starts; };
  const auto advance = [&](double& x, double length) {
    x += 1;
    return length <= 4 || step < 3 ? length <= 1 || step < 12 : false;
  };
  run.protect("step", step);
  run.protect("u", u);
  run.loop([&] {
    step = 0;
    start(u);  // the start stands inside: before the first line there is nothing to put back
    for (run.resume(); step < steps; ++step) {
      if (run.checkpoint() == backstay::Outcome::stop) break;
      if (!advance(u, dt)) {  // the same answer on all ranks
        dt /= 2;              // not protected, or the rollback would put it back
        run.rollback("the pressure solver does not converge");
      }
    }
  });
  return step == steps && u == 100 + steps && starts == 5 && dt == 1 ? 0 : 1;
}

/// The fluxes are in no line, and come again with the same values.
int save_less(backstay::Session& run) {
  constexpr int steps = 12;
  int step = 0;
  std::vector<double> u(1000, 1.0), flux(1000);
  const auto fill = [](std::vector<double>& to, const std::vector<double>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] / 4 + from[(i + 1) % from.size()] / 8;
  };
  const auto add = [](std::vector<double>& to, const std::vector<double>& what) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
  };
  run.protect("step", step);
  run.protect("u", u);
  run.protect("flux", flux);
  run.resume();
  const auto fluxes = run.declare("fluxes", {backstay::reads("u").around({{-1, 1}}), backstay::writes("flux")});
  const auto update = run.declare("update", {backstay::reads("flux"), backstay::updates("u")});
  while (step < steps) {
    run.checkpoint();
    run.compute(fluxes, [&] { fill(flux, u); });  // a line waits for this: `flux` is overwritten, and left out
    run.compute(update, [&] { add(u, flux); });
    ++step;
  }
  run.wait();
  return run.status().left_out_bytes == flux.size() * sizeof(double) && run.status().failed == 0 ? 0 : 1;
}

/// Nothing but u is protected; the loop is gone again.
int replay(backstay::Session& run) {
  constexpr int steps = 12;
  std::vector<double> u(1000);
  const auto begin_with = [](std::vector<double>& to) { to.assign(to.size(), 1.0); };
  int swept = 0;
  const auto relax = [&swept](std::vector<double>& to, int target) {
    ++swept;
    for (double& x : to) x += (target - x) / 2;
    return to[0] > target ? to[0] - target : target - to[0];
  };
  run.protect("u", u);
  const auto start = run.declare("start", {backstay::writes("u")});
  const auto sweep = run.declare("sweep", {backstay::updates("u")});
  run.replay();
  run.compute(start, [&] { begin_with(u); });
  for (int step = 0; step < steps; ++step) {  // `step`, `residual` and `iterations` are in no line
    run.checkpoint();
    double residual = 1;
    for (int iterations = 0; residual > 1e-6 && iterations < 50; ++iterations)
      residual = run.compute(sweep, [&] { return relax(u, step); });
  }
  run.wait();
  if (run.rank() == 0) std::printf("swept %d times\n", swept);
  return u[0] > 10.99999 && u[0] < 11.00001 && run.status().failed == 0 ? 0 : 1;
}

int work(int argc, char** argv) {
  backstay::Session run(argc, argv, {{"every", "5"}, {"log", "quiet"}});
  const std::string what = argc == 2 ? argv[1] : "";
  if (what == "loop") return go_back(run);
  if (what == "less") return save_less(run);
  if (what == "replay") return replay(run);
  Data wanted;
  fill(wanted, run.rank());
  if (what == "save") {
    protect(run, wanted);
    return run.checkpoint(backstay::now) == backstay::Outcome::taken ? 0 : 1;
  }
  Data found;
  protect(run, found);
  return run.resume() && text_of(found) == text_of(wanted) ? 0 : 1;
}
}  // namespace

int main(int argc, char** argv) {
  try {
    return work(argc, argv);
  } catch (const backstay::Error& e) {
    std::fprintf(stderr, "forms: %s\n", e.what());
    return 1;
  }
}
