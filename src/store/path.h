// Paths inside a store: relative, with '/', "" for the root.
#pragma once

#include <string>

#include "base/result.h"

namespace backstay::store {

/// Code::invalid_argument unless every part is a plain name: no leading, trailing or double '/', no "." and "..", no
/// zero byte. So no path leads out of the store.
Result<void> check_path(const std::string& path);
/// "a/b" gives "a"; "a" and "" give "".
std::string parent_of(const std::string& path);
/// "a/b" gives "b".
std::string name_of(const std::string& path);

}  // namespace backstay::store
