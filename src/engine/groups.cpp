#include "engine/groups.h"

namespace backstay::engine {

Result<void> Groups::open() {
  auto app = origin_->duplicate();
  if (!app) return app.failure();
  app_ = std::move(*app);
  return renew_background();
}

Result<void> Groups::renew_background() {
  auto made = app_->duplicate_for_background();
  if (!made) return made.failure();
  background_ = std::move(*made);
  return {};
}

}  // namespace backstay::engine
