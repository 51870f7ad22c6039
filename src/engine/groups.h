// The groups of ranks that a session talks in, and how they are made anew after a rank was waited for in vain.
#pragma once

#include <memory>

#include "comm/comm.h"

namespace backstay::engine {

/// One group for the application's calls and one for the background. A group is broken once a wait in it has timed
/// out; as the rank that did not come may only have been slow (a stalled disk, a stopped process), both can be made
/// anew. That begins with a third group, in which nothing else is done and nothing times out (see Reunion).
class Groups {
 public:
  explicit Groups(std::unique_ptr<comm::Comm> ranks) : origin_(std::move(ranks)) {}

  /// Collective: makes both for the first time.
  Result<void> open();
  [[nodiscard]] comm::Comm& app() const { return *app_; }
  [[nodiscard]] comm::Comm& background() { return *background_; }

  /// Of which app() is a duplicate, as the next one will be.
  [[nodiscard]] comm::Comm& origin() { return *origin_; }
  void use_app(std::unique_ptr<comm::Comm> made) { app_ = std::move(made); }
  /// Collective, in app(), which is broken where this fails; the old background group must not be in use anywhere.
  Result<void> renew_background();

 private:
  std::unique_ptr<comm::Comm> origin_;
  std::unique_ptr<comm::Comm> app_;
  std::unique_ptr<comm::Comm> background_;
};

}  // namespace backstay::engine
