// What needs no flow: options, blocks, the table of the loops, the exact solution of the tests, output.
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "history.h"
#include "loops.h"
#include "mesh.h"
#include "options.h"
#include "riemann.h"

namespace clover3d {
namespace {

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_options(arguments);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Options, all_of_them_are_taken) {
  const Options o = parse_options({"--nx", "64", "--ny=32", "--nz", "16", "--steps", "7", "--output-every=3", "--csv",
                                   "a.csv", "--quiet", "--plain"});
  EXPECT_EQ(o.cells, (Triple{64, 32, 16}));
  EXPECT_EQ(o.steps, 7);
  EXPECT_EQ(o.output_every, 3);
  EXPECT_EQ(o.csv, "a.csv");
  EXPECT_TRUE(o.quiet && o.plain && !o.help);
  EXPECT_EQ(parse_options({"--n", "24"}).cells, (Triple{24, 24, 24}));
}

TEST(Options, what_cannot_work_is_refused_with_a_sentence) {
  EXPECT_EQ(refusal({"--stpes", "3"}), "unknown option '--stpes'; see clover3d --help");
  EXPECT_EQ(refusal({"--steps"}), "--steps needs a value; see clover3d --help");
  EXPECT_EQ(refusal({"--quiet=1"}), "--quiet takes no value; see clover3d --help");
  EXPECT_EQ(refusal({"--n", "1"}), "--n takes a number from 2 to 1024, not '1'");
  EXPECT_EQ(refusal({"--nz", "2x"}), "--nz takes a number from 2 to 1024, not '2x'");
  EXPECT_EQ(refusal({"--output-every", "0"}), "--output-every takes a number from 1 to 1000000000, not '0'");
  EXPECT_EQ(refusal({"--n", "8", "--ny", "9"}), "give --n, or --nx, --ny and --nz, not both");
  EXPECT_EQ(refusal({"--csv="}), "--csv needs the name of a file");
}

TEST(Blocks, every_value_of_a_field_has_one_owner) {
  const Triple cells{7, 5, 6};
  for (const int size : {1, 2, 3, 4, 6, 8, 12}) {
    const Triple ranks = program::choose_ranks(size, cells, halo);
    for (const Stagger& stagger : {centred, nodal, Stagger{1, 0, 0}, Stagger{0, 1, 0}, Stagger{0, 0, 1}}) {
      std::set<Triple> owned;
      for (int rank = 0; rank < size; ++rank) {
        const Block block = program::block_of(rank, ranks, cells);
        const Triple values = Layout(block).owned(stagger);
        for (int k = 0; k < values[2]; ++k) {
          for (int j = 0; j < values[1]; ++j) {
            for (int i = 0; i < values[0]; ++i)
              EXPECT_TRUE(owned.insert({block.lower[0] + i, block.lower[1] + j, block.lower[2] + k}).second);
          }
        }
      }
      const Triple all = values_of(cells, stagger);
      EXPECT_EQ(owned.size(), static_cast<std::size_t>(all[0] * all[1] * all[2])) << size << " ranks";
      EXPECT_EQ(*owned.rbegin(), (Triple{all[0] - 1, all[1] - 1, all[2] - 1}));
    }
  }
}

TEST(Loops, the_table_names_every_loop_and_every_array) {
  ASSERT_EQ(all_loops().size(), loop_count);
  std::set<std::string> names;
  std::set<Field> used;
  for (std::size_t l = 0; l < loop_count; ++l) {
    const LoopUses& loop = all_loops()[l];
    EXPECT_EQ(loop.loop, static_cast<Loop>(l)) << loop.name;
    EXPECT_TRUE(names.insert(loop.name).second) << loop.name;
    std::set<Field> once;
    for (const auto& use : loop.uses) {
      EXPECT_TRUE(once.insert(use.field).second) << loop.name << " names " << name_of(use.field) << " twice";
      EXPECT_FALSE(is_constant(use.field) && use.mode != program::Mode::read) << loop.name;
      used.insert(use.field);
    }
  }
  EXPECT_EQ(used.size(), field_count);
}

TEST(Mesh, its_lines_have_the_coordinates_of_the_box) {
  const Mesh mesh({{4, 5, 2}, {1, 10, 3}});
  ASSERT_EQ(mesh.lines().size(), 12U);
  const Mesh::Line& line = mesh.lines()[6];
  EXPECT_EQ(line.name, "vertexy");
  EXPECT_EQ(line.length, 6);
  EXPECT_EQ(line.data[5], 10);
  EXPECT_EQ(mesh.along(y_axis, Mesh::Kind::centre, 3)[1], 9);
  EXPECT_EQ(mesh.along(z_axis, Mesh::Kind::width, 0)[-1], 1.5);
}

// Table 4.2 of Toro: his tests 1 (of Sod, without the velocity) and 4.
TEST(Riemann, the_state_between_the_waves_is_that_of_the_literature) {
  const Gas sod = Riemann({1, 0, 1}, {0.125, 0, 0.1}).at(0.8);
  EXPECT_NEAR(sod.pressure, 0.30313, 5e-6);
  EXPECT_NEAR(sod.velocity, 0.92745, 5e-6);
  EXPECT_NEAR(sod.density, 0.42632, 5e-6);
  const Gas collision = Riemann({1, 0, 0.01}, {1, 0, 100}).at(-6.3);
  EXPECT_NEAR(collision.pressure, 46.0950, 5e-5);
  EXPECT_NEAR(collision.velocity, -6.19633, 5e-6);
}

TEST(History, numbers_come_back_from_csv_as_they_were) {
  EXPECT_EQ(to_csv({{3, 0.1, 1.0 / 3, 2, 0.7, 0, 1e-11}}),
            "step,time,dt,mass,internal_energy,kinetic_energy,pressure\n"
            "3,0.10000000000000001,0.33333333333333331,2,0.69999999999999996,0,9.9999999999999994e-12\n");
}

}  // namespace
}  // namespace clover3d
