// Writes the sample of a format version, by hand and once: see README.md. Every region is a plain function of the rank
// (golden.h), so that a reader knows what must be there.
//
//   mpirun -n 3 write_golden DIR       one line, level shared, one file
//   write_golden DIR                   one line, level shared, a file per rank
//   mpirun -n 3 write_golden DIR parts the same as the first, of regions that are saved in parts, or not at all
#include <cstdio>

#include "golden.h"

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: write_golden DIR, on 1 rank or, under mpirun, on 3\n");
    return 2;
  }
  int size = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 2) {
    backstay::Session session(
        MPI_COMM_WORLD,
        {{"dir", argv[1]}, {"levels", "shared"}, {"shared.layout", "one-file"}, {"every", "1"}, {"policy", "wait"}});
    golden::InParts regions(session.rank(), session.size());
    regions.protect_and_run(session);
    if (session.status().failed > 0) throw std::runtime_error(session.status().last_error);
  } else {
    backstay::Session session(
        MPI_COMM_WORLD,
        {{"dir", argv[1]}, {"levels", "shared"}, {"shared.layout", size > 1 ? "one-file" : "file-per-rank"}});
    golden::Regions regions(session.rank(), session.size());
    regions.protect(session);
    session.checkpoint(backstay::now);
    session.wait();
    if (session.status().failed > 0) throw std::runtime_error(session.status().last_error);
  }
  MPI_Finalize();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "write_golden: %s\n", e.what());
  return 1;
}
