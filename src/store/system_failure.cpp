#include "store/system_failure.h"

#include <system_error>

namespace backstay::store {
namespace {

Code code_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return Code::no_space;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission;
    case ENOENT:
      return Code::not_found;
    default:
      return Code::io;
  }
}

std::string_view advice_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free space there or choose another directory";
    case EACCES:
    case EPERM:
      return "; change the permissions or choose another directory";
    case EROFS:
      return "; choose a directory on a file system that is mounted for writing";
    case EFBIG:
      return "; raise the limit on file sizes (ulimit -f) or use a layout with smaller files";
    case ENOTDIR:
      return "; a file is in its place: choose another name";
    case EMFILE:
    case ENFILE:
      return "; raise the limit on open files (ulimit -n)";
    default:
      return "";
  }
}

}  // namespace

Failure system_failure(std::string_view action, const std::string& path, int error) {
  return fail(code_of(error), "cannot ", action, " ", path, ": ", std::system_category().message(error),
              advice_for(error));
}

Failure ends_early(const std::string& path, std::uint64_t offset, std::size_t got, std::size_t wanted) {
  return fail(Code::corrupt, path, " ends at byte ", offset + got, " or before, but bytes up to ", offset + wanted,
              " were expected: it was cut or never finished");
}

}  // namespace backstay::store
