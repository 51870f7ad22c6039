// Peer: the program's arrays in one file by parallel HDF5, every write collective. One JSON object on stdout.
//   mpirun -n 4 phdf5 DIR MIB_PER_RANK ARRAYS REPEATS
// Each array is a dataset of all ranks; each rank writes its part. Two times: to a new file, and over the datasets of a
// file that is there; each with fsync at the end, beside W+fsync (memcpy + write(2) + fsync of the same bytes to a new
// file a rank) in the same turn. Built by `./dev bench`, apart from the library.
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../one_clock.h"

namespace {

void need(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "phdf5: %s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

using bench::median;
using bench::timed;
using Arrays = std::vector<std::vector<double>>;

void write_plain(const std::string& path, const Arrays& arrays, std::vector<char>& staging) {
  char* to = staging.data();
  for (const auto& a : arrays) {
    std::memcpy(to, a.data(), a.size() * sizeof(double));
    to += a.size() * sizeof(double);
  }
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  for (std::size_t at = 0; at < staging.size();) {
    const auto n = ::write(file, staging.data() + at, staging.size() - at);
    need(n > 0, "write");
    at += static_cast<std::size_t>(n);
  }
  need(fsync(file) == 0, "fsync");
  ::close(file);
}

/// All arrays into one file, collectively; `fresh`: a new file.
void write_hdf5(const std::string& path, const Arrays& arrays, int rank, int ranks, bool fresh) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  H5Pset_alignment(access, 65536, 4096);
  const hid_t file =
      fresh ? H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path.c_str(), H5F_ACC_RDWR, access);
  need(file >= 0, "opening the file");
  const hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const hsize_t mine = arrays[i].size(), all = mine * static_cast<hsize_t>(ranks);
    const hsize_t first = mine * static_cast<hsize_t>(rank);
    const hid_t in_file = H5Screate_simple(1, &all, nullptr), in_memory = H5Screate_simple(1, &mine, nullptr);
    const std::string name = "a" + std::to_string(i);
    const hid_t set =
        fresh ? H5Dcreate2(file, name.c_str(), H5T_NATIVE_DOUBLE, in_file, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)
              : H5Dopen2(file, name.c_str(), H5P_DEFAULT);
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, &first, nullptr, &mine, nullptr);
    need(H5Dwrite(set, H5T_NATIVE_DOUBLE, in_memory, in_file, transfer, arrays[i].data()) >= 0, "H5Dwrite");
    H5Dclose(set);
    H5Sclose(in_file);
    H5Sclose(in_memory);
  }
  H5Pclose(transfer);
  need(H5Fclose(file) >= 0, "H5Fclose");
  H5Pclose(access);
  const int again = ::open(path.c_str(), O_WRONLY);
  need(fsync(again) == 0, "fsync");
  ::close(again);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: mpirun -n RANKS phdf5 DIR MIB_PER_RANK ARRAYS REPEATS\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string dir = argv[1], shared = dir + "/phdf5.h5", plain = dir + "/plain-" + std::to_string(rank);
  const std::size_t bytes = static_cast<std::size_t>(std::atol(argv[2])) << 20;
  const auto count = static_cast<std::size_t>(std::atol(argv[3]));
  Arrays arrays(count, std::vector<double>(bytes / count / sizeof(double), 1.5 + rank));
  std::vector<char> staging(bytes, 1);

  std::vector<double> ws, fresh, again, fresh_per_ws, again_per_ws;
  for (int i = 0; i < std::atoi(argv[4]) + 1; ++i) {
    const double w = timed([&] { write_plain(plain, arrays, staging); });
    ::unlink(plain.c_str());
    if (rank == 0) ::unlink(shared.c_str());
    const double f = timed([&] { write_hdf5(shared, arrays, rank, ranks, true); });
    const double a = timed([&] { write_hdf5(shared, arrays, rank, ranks, false); });
    if (i == 0) continue;  // the first of everything
    ws.push_back(w);
    fresh.push_back(f);
    again.push_back(a);
    fresh_per_ws.push_back(f / w);
    again_per_ws.push_back(a / w);
  }
  if (rank == 0) {
    ::unlink(shared.c_str());
    std::printf(
        "{\"what\": \"phdf5-collective\", \"mib\": %s, \"arrays\": %s, \"ranks\": %d, \"repeats\": %s, \"ws\": %.6g, "
        "\"new\": %.6g, \"again\": %.6g, \"new_per_ws\": %.6g, \"again_per_ws\": %.6g}\n",
        argv[2], argv[3], ranks, argv[4], median(ws), median(fresh), median(again), median(fresh_per_ws),
        median(again_per_ws));
  }
  MPI_Finalize();
  return 0;
}
