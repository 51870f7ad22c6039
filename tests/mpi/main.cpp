// The main of the tests on MPI ranks. Arguments: --threads=funneled (MPI without threads: the fall-back),
// --progress=calls (the fall-back by option).
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

namespace {

/// Only rank 0 tells what passes; every rank tells what fails.
class OnlyFailures : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (!part.failed()) return;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::cerr << "rank " << rank << ": " << (part.file_name() == nullptr ? "?" : part.file_name()) << ":"
              << part.line_number() << ": " << part.message() << std::endl;
  }
};

}  // namespace

int main(int argc, char** argv) {
  int wanted = MPI_THREAD_MULTIPLE, provided = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--threads=funneled") wanted = MPI_THREAD_FUNNELED;
    if (std::string_view(argv[i]) == "--progress=calls") setenv("BACKSTAY_PROGRESS", "calls", 1);
  }
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  ::testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new OnlyFailures);
  }
  const int mine = RUN_ALL_TESTS();
  int failed = mine;
  MPI_Allreduce(&mine, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
