#include "engine/groups.h"

namespace backstay::engine {

Result<void> Groups::open() {
  auto app = origin_->duplicate();
  if (!app) return app.failure();
  app_ = std::move(*app);
  auto background = app_->duplicate_for_background();
  if (!background) return background.failure();
  background_ = std::move(*background);
  return {};
}

}  // namespace backstay::engine
