// Feeds a target its seeds and files: `replay_TARGET FOLDER...`; `--seeds FOLDER` writes the seeds there instead.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "target.h"

namespace {
using backstay::Bytes;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return backstay::fuzz::bytes_of(std::string(std::istreambuf_iterator<char>(in), {}));
}

void try_both(const Bytes& input) {
  backstay::fuzz::try_input(input);
  backstay::fuzz::try_input(backstay::fuzz::repaired(input));
}

int write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const Bytes& seed : backstay::fuzz::seeds()) {
    std::ofstream out(folder / ("seed-" + std::to_string(number++)), std::ios::binary);
    out.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
  }
  return number > 0 ? 0 : 1;
}
}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "--seeds") return write_seeds(arguments[1]);
  int files = 0;
  for (const Bytes& seed : backstay::fuzz::seeds()) try_both(seed);
  for (const auto& folder : arguments)
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::fprintf(stderr, "%s\n", entry.path().c_str());  // the last one is it, where the process ends here
      try_both(read_file(entry.path()));
      ++files;
    }
  std::printf("%d files\n", files);
  return files > 0 ? 0 : 1;
}
