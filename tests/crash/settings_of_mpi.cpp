// settings_of_mpi session|mpi NAME: which value Open MPI works with for its variable NAME, once a session, or the
// program itself, has started it. Rank 0 prints "NAME VALUE", or "NAME unknown" where this MPI has none of that name.
// Nobody catches what a session throws.
#include <cstdio>
#include <string_view>

#include "backstay/backstay.hpp"

namespace {
void tell(const char* name) {
  int provided = 0, index = 0, count = 0, value = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS && count == 1 &&
      MPI_T_cvar_read(handle, &value) == MPI_SUCCESS)
    std::printf("%s %d\n", name, value);
  else
    std::printf("%s unknown\n", name);
  if (handle != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle);
  MPI_T_finalize();
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool itself = std::string_view(argv[1]) == "mpi";
  if (itself) MPI_Init(&argc, &argv);
  {
    backstay::Session session = itself ? backstay::Session(MPI_COMM_WORLD) : backstay::Session(argc, argv);
    session.loop([&] {
      session.resume();
      if (session.rank() == 0) tell(argv[2]);
    });
  }
  if (itself) MPI_Finalize();
  return 0;
}
