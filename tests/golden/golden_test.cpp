// golden_test SAMPLE [parts]: copies a sample to a directory of its own and resumes from it, on as many ranks as wrote
// it; all must be as golden.h says, bit for bit.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "golden.h"

namespace {
namespace fs = std::filesystem;

/// The sample's directory, copied: a session locks and describes the directory that it works in.
std::string copy_of(const std::string& sample, int rank) {
  std::string dir = (fs::temp_directory_path() / "backstay-golden.XXXXXX").string();
  if (rank == 0) {
    if (mkdtemp(dir.data()) == nullptr) std::perror("mkdtemp");
    fs::copy(sample, dir, fs::copy_options::recursive);
  }
  MPI_Bcast(dir.data(), static_cast<int>(dir.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  return dir;
}

std::string read_back(const std::string& dir, bool in_parts) {
  backstay::Session session(MPI_COMM_WORLD, {{"dir", dir}, {"levels", "shared"}, {"log", "quiet"}});
  if (in_parts) {
    golden::InParts parts(session.rank(), session.size());
    return parts.difference_after_resume(session);
  }
  golden::Regions regions(session.rank(), session.size());
  regions.forget();
  regions.protect(session);
  if (!session.resume()) return "no line was found";
  const auto verified = session.verify();
  if (!verified.damage.empty()) return verified.damage.front();
  return regions.difference(golden::Regions(session.rank(), session.size()));
}
}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string wrong = "no sample was named";
  if (argc == 2 || argc == 3) {
    const auto dir = copy_of(argv[1], rank);
    try {
      wrong = read_back(dir, argc == 3);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (rank == 0) fs::remove_all(dir, ignored);
  }
  if (!wrong.empty()) std::fprintf(stderr, "golden_test: rank %d: %s\n", rank, wrong.c_str());
  MPI_Finalize();
  return wrong.empty() ? 0 : 1;
}
