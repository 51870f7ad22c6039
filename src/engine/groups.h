// The groups of ranks that a session talks in.
#pragma once

#include <memory>

#include "comm/comm.h"

namespace backstay::engine {

/// One group for the application's calls and one for the background.
class Groups {
 public:
  explicit Groups(std::unique_ptr<comm::Comm> ranks) : origin_(std::move(ranks)) {}

  /// Collective: makes both.
  Result<void> open();
  [[nodiscard]] comm::Comm& app() const { return *app_; }
  [[nodiscard]] comm::Comm& background() { return *background_; }

 private:
  std::unique_ptr<comm::Comm> origin_;  ///< of which app() is a duplicate
  std::unique_ptr<comm::Comm> app_;
  std::unique_ptr<comm::Comm> background_;
};

}  // namespace backstay::engine
