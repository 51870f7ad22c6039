// What needs no other rank: options, boxes, integrals over an element, the dense factor, output.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "../../whole_file.h"
#include "elements.h"
#include "history.h"
#include "mesh.h"
#include "multigrid.h"
#include "numbering.h"
#include "options.h"

namespace heat {
namespace {

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_options(arguments);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Options, values_come_after_a_space_or_an_equals_sign) {
  const Options o = parse_options({"--cells", "48", "--steps=7", "--dt", "1e-4", "--csv", "a=b.csv", "--figures"});
  EXPECT_EQ(o.cells, 48);
  EXPECT_EQ(o.steps, 7);
  EXPECT_EQ(o.dt, 1e-4);
  EXPECT_EQ(o.csv, "a=b.csv");
  EXPECT_TRUE(o.figures && !o.plain && !o.quiet);
}

TEST(Options, what_cannot_work_is_refused_with_a_sentence) {
  EXPECT_EQ(refusal({"--cell", "3"}), "unknown option '--cell'; see heat --help");
  EXPECT_EQ(refusal({"--cells", "1"}), "--cells takes a number from 2 to 1000, not '1'");
  EXPECT_EQ(refusal({"--cells="}), "--cells takes a number from 2 to 1000, not ''");
  EXPECT_EQ(refusal({"--dt", "nan"}), "--dt takes a number from 1e-8 to 10, not 'nan'");
  EXPECT_EQ(refusal({"--steps", "12x"}), "--steps takes a number from 1 to 1000000000, not '12x'");
  EXPECT_EQ(refusal({"--steps"}), "--steps needs a value; see heat --help");
  EXPECT_EQ(refusal({"--plain=yes"}), "--plain takes no value; see heat --help");
}

TEST(Mesh, boxes_share_out_all_cells) {
  for (int cells : {8, 11}) {
    for (int ranks : {1, 2, 3, 5, 7, 8, 12, 27}) {
      std::set<Element> all;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto elements = elements_of(box_of(rank, ranks, cells), cells);
        EXPECT_FALSE(elements.empty());
        for (const Element& e : elements) EXPECT_TRUE(all.insert(e).second);
      }
      EXPECT_EQ(all.size(), static_cast<std::size_t>(cells * cells * cells)) << cells << " " << ranks;
    }
  }
}

TEST(Mesh, too_many_ranks_are_refused_by_all) {
  EXPECT_NO_THROW(require_cells_for(7, 3));
  EXPECT_THROW(require_cells_for(9, 2), std::invalid_argument);
  // Most of these ranks would find cells for themselves.
  int found = 0;
  for (int rank = 0; rank < 16; ++rank) {
    try {
      box_of(rank, 16, 3);
      ++found;
    } catch (const std::invalid_argument&) {
    }
  }
  EXPECT_EQ(found, 14);
  EXPECT_THROW(require_cells_for(16, 3), std::invalid_argument);
}

TEST(Mesh, a_box_has_the_faces_of_its_surface) {
  EXPECT_EQ(outer_faces(elements_of({{0, 1, 2}, {2, 4, 6}}, 8)).size(), 2U * (2 * 3 + 3 * 4 + 4 * 2));
}

Corners unit_cube() {
  Corners c;
  for (std::size_t i = 0; i < 8; ++i) {
    c[i] = {(i & 1) != 0 ? 1.0 : 0.0, (i & 2) != 0 ? 1.0 : 0.0, (i & 4) != 0 ? 1.0 : 0.0};
  }
  return c;
}

TEST(Elements, matrices_of_the_unit_cube_are_those_of_the_textbook) {
  Problem p;
  p.conductivity = [](const Point&) { return 1; };
  p.capacity = [](const Point&) { return 1; };
  const ElementMatrices m = integrate(unit_cube(), p);
  EXPECT_NEAR(m.mass[0][0], 1.0 / 27, 1e-15);
  EXPECT_NEAR(m.mass[0][7], 1.0 / 216, 1e-15);
  EXPECT_NEAR(m.conduction[0][0], 1.0 / 3, 1e-15);
  EXPECT_NEAR(m.conduction[0][1], 0, 1e-15);
  EXPECT_NEAR(m.conduction[0][3], -1.0 / 12, 1e-15);
  EXPECT_NEAR(m.conduction[0][7], -1.0 / 12, 1e-15);
}

TEST(Elements, on_a_bent_element_a_linear_temperature_has_the_energy_of_its_gradient) {
  Corners c = unit_cube();
  c[7] = {1.2, 1.1, 0.9};
  c[2] = {-0.1, 1.05, 0.1};
  Problem p;
  p.conductivity = [](const Point&) { return 3; };
  p.capacity = [](const Point&) { return 1; };
  const ElementMatrices m = integrate(c, p);
  double energy = 0, volume = 0, weights = 0;
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < 8; ++b) {
      const double ua = 2 * c[a][0] - c[a][2], ub = 2 * c[b][0] - c[b][2];
      energy += ua * m.conduction[a][b] * ub;
      volume += m.mass[a][b];
    }
  }
  for (const SourcePoint& q : source_quadrature(c)) weights += q.weight;
  EXPECT_NEAR(energy, 3 * 5 * volume, 1e-13);
  EXPECT_NEAR(weights, volume, 1e-13);
}

TEST(Elements, a_face_has_its_area) {
  const auto m = face_mass({{{0, 0, 0}, {2, 0, 0}, {2, 3, 0}, {0, 3, 0}}});
  EXPECT_NEAR(m[0][0], 6.0 / 9, 1e-14);
  EXPECT_NEAR(m[0][2], 6.0 / 36, 1e-14);
}

TEST(CoarseFactor, solves) {
  CoarseFactor f;
  f.lower = {2, 1, 3, -1, 0.5, 1};  // L; the matrix is L L^T
  std::vector<double> x(3);
  const std::vector<double> solution{0.25, 1, 2};
  const double l[3][3] = {{2, 0, 0}, {1, 3, 0}, {-1, 0.5, 1}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 3; ++k) {
      for (std::size_t j = 0; j < 3; ++j) x[i] += l[i][k] * l[j][k] * solution[j];
    }
  }
  f.solve(x);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(x[i], solution[i], 1e-14);
}

TEST(History, csv_reads_back_the_same_numbers) {
  const History history{{1, 0.1, 1.0 / 3, std::nextafter(2.0, 3.0), 9}};
  std::istringstream csv(to_csv(history));
  std::string header, row;
  std::getline(csv, header);
  std::getline(csv, row);
  EXPECT_EQ(header, "step,time,heat,highest,iterations");
  Record r;
  ASSERT_EQ(std::sscanf(row.c_str(), "%ld,%lf,%lf,%lf,%ld", &r.step, &r.time, &r.heat, &r.highest, &r.iterations), 5);
  EXPECT_EQ(r.heat, history[0].heat);
  EXPECT_EQ(r.highest, history[0].highest);
}

TEST(History, a_file_that_cannot_be_written_is_said_before_the_run) {
  try {
    program::require_writable("/nowhere/at-all/history.csv");
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(),
                 "cannot write the results to /nowhere/at-all/history.csv: No such file or directory; name another "
                 "file with --csv");
  }
}

}  // namespace
}  // namespace heat
