// What the example programs do alike at their beginning and end: who speaks for all, and how they give up.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace program {

/// Of this process in the communicator that it works in; nothing before it has one.
inline std::optional<int> rank_at_work;

/// Whether this process speaks for all: before MPI is up, only the launcher's variables tell.
inline bool speaks() {
  if (rank_at_work) return *rank_at_work == 0;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::string(rank) == "0";
  }
  return true;
}

/// One rank says why; the others give it a second to do so, because mpirun ends the job at the first exit.
inline int give_up(const char* name, const std::exception& e, int status) {
  if (speaks())
    std::fprintf(stderr, "%s: %s\n", name, e.what());
  else
    std::this_thread::sleep_for(std::chrono::seconds(1));
  return status;
}

/// main() of the program `name`. `parse` gives its options, which have `help`, `csv` and `plain`; `run` and
/// `run_plain`, without backstay, take argc, argv and the options. The exit status: 2 for wrong options, 1 for a
/// failure.
template <class Parse, class Usage, class RequireWritable, class Run>
int main_of(const char* name, int argc, char** argv, Parse parse, Usage usage, RequireWritable require_writable,
            Run run, Run run_plain) {
  decltype(parse(std::vector<std::string>())) options;
  try {
    options = parse({argv + 1, argv + argc});
  } catch (const std::invalid_argument& e) {
    return give_up(name, e, 2);
  }
  if (options.help) {
    if (speaks()) std::fputs(usage().c_str(), stdout);
    return 0;
  }
  try {
    if (speaks() && !options.csv.empty()) require_writable(options.csv);
    (options.plain ? run_plain : run)(argc, argv, options);
    return 0;
  } catch (const std::exception& e) {
    return give_up(name, e, 1);
  }
}

}  // namespace program
