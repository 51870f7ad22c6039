// The solver as clover3d.f90 calls it. What throws is remembered, and calls after it do nothing, until work_in().
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../growing_table.h"
#include "../program.h"
#include "../whole_file.h"
#include "history.h"
#include "loops.h"
#include "options.h"
#include "problem.h"
#include "system.h"

namespace {

using clover3d::Field;
using clover3d::Record;
using clover3d::System;

clover3d::Options options;
std::string complaint;
std::unique_ptr<System> system_of_this_rank;
std::size_t printed = 0;

template <class Action>
void unless_failed(const Action& action) {
  if (!complaint.empty()) return;
  try {
    action();
  } catch (const std::exception& e) {
    complaint = e.what();
  }
}
template <class Action>
void on_system(const Action& action) {
  unless_failed([&] { action(*system_of_this_rank); });
}

void copy_name(char (&to)[32], const std::string& from) { std::strncpy(to, from.c_str(), sizeof to - 1); }

}  // namespace

extern "C" {

/// What the driver needs of the command line.
struct clover3d_run {
  int steps, output_every, plain, quiet;
  int information;  // as program::Information counts
  int trigger_every;
};
/// A field: memory with its halo, fastest dimension first, and what of it is whose.
struct clover3d_field {
  char name[32];
  double* data;
  int extent[3], owned[3], global[3], lower[3];
  int halo, is_constant;
};
struct clover3d_line {
  char name[32];
  double* data;
  int length;
};
struct clover3d_loop {
  char name[32];
  int uses;
};

/// Ends the program for --help and for what cannot work.
void clover3d_start(int count, const char* const* words, clover3d_run* run) {
  try {
    options = clover3d::parse_options({words, words + count});
  } catch (const std::invalid_argument& e) {
    std::exit(program::give_up("clover3d", e, 2));
  }
  if (options.help) {
    if (program::speaks()) std::fputs(clover3d::usage().c_str(), stdout);
    std::exit(0);
  }
  unless_failed([] {
    if (program::speaks() && !options.csv.empty()) program::require_writable(options.csv);
  });
  *run = {options.steps,
          options.output_every,
          options.plain ? 1 : 0,
          options.quiet ? 1 : 0,
          static_cast<int>(options.told.information),
          options.told.trigger_every};
}

int clover3d_failed() { return complaint.empty() ? 0 : 1; }
void clover3d_complain(const char* sentence) {
  if (complaint.empty()) complaint = sentence;
}
void clover3d_give_up() { std::exit(program::give_up("clover3d", std::runtime_error(complaint), 1)); }

MPI_Fint clover3d_begin_mpi() {
  MPI_Init(nullptr, nullptr);
  return MPI_Comm_c2f(MPI_COMM_WORLD);
}
void clover3d_end_mpi() { MPI_Finalize(); }

/// From the beginning, as a rank of `comm`; also after the loss of another one.
void clover3d_work_in(MPI_Fint comm) {
  complaint.clear();
  int rank = 0;
  if (MPI_Comm_rank(MPI_Comm_f2c(comm), &rank) == MPI_SUCCESS) program::rank_at_work = rank;
  unless_failed([&] {
    system_of_this_rank = std::make_unique<System>(MPI_Comm_f2c(comm), clover3d::domain_of(options.cells));
    system_of_this_rank->start(clover3d::hot_box_in_a_corner);
  });
}
void clover3d_end() { system_of_this_rank.reset(); }
/// Once more what work_in() has begun with.
void clover3d_begin_again() {
  on_system([](System& s) { s.start(clover3d::hot_box_in_a_corner); });
}
/// `before` gives 0 where a loop is to be skipped; `returned` is given what one returned, or the place for it.
void clover3d_watch(int (*before)(int), void (*returned)(double*, int)) {
  on_system([=](System& s) {
    s.watch([=](clover3d::Loop loop) { return before(static_cast<int>(loop)) != 0; },
            [=](std::span<double> values) { returned(values.data(), static_cast<int>(values.size())); });
  });
}

int clover3d_field_count() { return static_cast<int>(clover3d::field_count); }
int clover3d_line_count() {
  int count = 0;
  on_system([&](System& s) { count = static_cast<int>(s.mesh().lines().size()); });
  return count;
}
int clover3d_loop_count() { return static_cast<int>(clover3d::loop_count); }

void clover3d_describe_field(int number, clover3d_field* out) {
  const auto field = static_cast<Field>(number);
  *out = {};
  on_system([&](System& s) {
    const auto& layout = s.layout();
    const auto stagger = clover3d::stagger_of(field);
    const auto global = clover3d::values_of(s.block().cells, stagger);
    const auto owned = layout.owned(stagger);
    copy_name(out->name, clover3d::name_of(field));
    out->data = s.data(field);
    out->extent[0] = static_cast<int>(layout.stride[1]);
    out->extent[1] = static_cast<int>(layout.stride[2] / layout.stride[1]);
    out->extent[2] = static_cast<int>(static_cast<std::ptrdiff_t>(layout.points) / layout.stride[2]);
    std::copy(owned.begin(), owned.end(), out->owned);
    std::copy(global.begin(), global.end(), out->global);
    std::copy(s.block().lower.begin(), s.block().lower.end(), out->lower);
    out->halo = clover3d::halo;
    out->is_constant = clover3d::is_constant(field) ? 1 : 0;
  });
}
void clover3d_describe_line(int number, clover3d_line* out) {
  *out = {};
  on_system([&](System& s) {
    const auto& line = s.mesh().lines()[static_cast<std::size_t>(number)];
    copy_name(out->name, line.name);
    out->data = line.data;
    out->length = line.length;
  });
}
void clover3d_describe_loop(int number, clover3d_loop* out) {
  *out = {};
  const auto& loop = clover3d::all_loops()[static_cast<std::size_t>(number)];
  copy_name(out->name, loop.name);
  out->uses = static_cast<int>(loop.uses.size());
}
/// `mode`: 0 reads, 1 writes, 2 updates.
void clover3d_describe_use(int loop, int number, int* field, int* mode) {
  const auto& use = clover3d::all_loops()[static_cast<std::size_t>(loop)].uses[static_cast<std::size_t>(number)];
  *field = static_cast<int>(use.field);
  *mode = static_cast<int>(use.mode);
}

void clover3d_ideal_gas_start() {
  on_system([](System& s) { s.ideal_gas_start(); });
}
void clover3d_ideal_gas_half() {
  on_system([](System& s) { s.ideal_gas_half(); });
}
void clover3d_viscosity() {
  on_system([](System& s) { s.viscosity(); });
}
double clover3d_time_step() {
  double dt = 0;
  on_system([&](System& s) { dt = s.time_step(); });
  return dt;
}
/// Fills the halos for `loop`, counted from 0.
void clover3d_exchange(int loop) {
  on_system([=](System& s) { s.exchange(static_cast<clover3d::Loop>(loop)); });
}
void clover3d_pdv_predict(double dt) {
  on_system([=](System& s) { s.pdv_predict(dt); });
}
void clover3d_accelerate(double dt) {
  on_system([=](System& s) { s.accelerate(dt); });
}
void clover3d_pdv_correct(double dt) {
  on_system([=](System& s) { s.pdv_correct(dt); });
}
void clover3d_volume_fluxes(double dt) {
  on_system([=](System& s) { s.volume_fluxes(dt); });
}
void clover3d_sweep_volumes(int axis, const double* left) {
  on_system([=](System& s) { s.sweep_volumes(axis, {left[0], left[1], left[2]}); });
}
void clover3d_cell_fluxes(int axis) {
  on_system([=](System& s) { s.cell_fluxes(axis); });
}
void clover3d_cell_update(int axis) {
  on_system([=](System& s) { s.cell_update(axis); });
}
void clover3d_node_masses(int axis) {
  on_system([=](System& s) { s.node_masses(axis); });
}
void clover3d_momentum_flux(int axis, int component) {
  on_system([=](System& s) { s.momentum_flux(axis, component); });
}
void clover3d_momentum_update(int axis, int component) {
  on_system([=](System& s) { s.momentum_update(axis, component); });
}
void clover3d_reset() {
  on_system([](System& s) { s.reset(); });
}
void clover3d_summary(Record* record) {
  on_system([=](System& s) {
    const auto totals = s.summary();
    record->mass = totals.mass;
    record->internal_energy = totals.internal_energy;
    record->kinetic_energy = totals.kinetic_energy;
    record->pressure = totals.pressure;
  });
}

/// The rows that this process has not printed yet.
void clover3d_print_rows(int count, const Record* records) {
  if (program::speaks() && !options.quiet)
    program::print_new_rows(clover3d::History(records, records + count), printed, clover3d::table_header,
                            clover3d::table_row);
}
void clover3d_write_csv(int count, const Record* records) {
  unless_failed([=] {
    if (program::speaks() && !options.csv.empty())
      program::write_whole_file(options.csv, clover3d::to_csv({records, records + count}));
  });
}
void clover3d_require_end_ahead(int step) {
  unless_failed([=] { program::require_end_ahead(step, options.steps); });
}
void clover3d_print_end(int step, double mass, double energy) {
  if (program::speaks())
    std::printf("%d of %d steps, mass %.10g, total energy %.10g\n", step, options.steps, mass, energy);
}
/// As the note of the program in C++.
void clover3d_print_note(std::int64_t bytes, std::int64_t left_out, int taken) {
  if (!program::speaks() || options.quiet) return;
  if (taken != 0)
    std::printf("of the %lld bytes of this rank's arrays the newest checkpoint left out %lld\n",
                static_cast<long long>(bytes), static_cast<long long>(left_out));
  else
    std::puts("no checkpoint was due");
  std::fflush(stdout);
}
}
