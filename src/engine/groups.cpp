#include "engine/groups.h"

namespace backstay::engine {

Result<void> Groups::open() {
  auto app = origin_->duplicate();
  if (!app) return app.failure();
  app_ = std::move(*app);
  return renew_background();
}

Result<bool> Groups::renew_app() {
  if (!coming_) {
    auto started = origin_->start_duplicate();
    if (!started) return started.failure();
    coming_ = std::move(*started);
  }
  const auto here = coming_->test();
  if (!here || !*here) return here;
  app_ = coming_->take();
  coming_.reset();
  return true;
}

Result<void> Groups::renew_background() {
  auto made = app_->duplicate_for_background();
  if (!made) return made.failure();
  background_ = std::move(*made);
  return {};
}

}  // namespace backstay::engine
