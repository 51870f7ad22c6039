#include "engine/groups.h"

namespace backstay::engine {

namespace {
Result<void> duplicate(comm::Comm& origin, std::unique_ptr<comm::Comm>& into) {
  auto made = origin.duplicate();
  if (!made) return made.failure();
  into = std::move(*made);
  return {};
}
}  // namespace

Result<void> Groups::open() {
  BACKSTAY_TRY(duplicate(*app_origin_, app_));
  return duplicate(*background_origin_, background_);
}

Result<bool> Groups::renew_app() {
  if (!coming_) {
    auto started = app_origin_->start_duplicate();
    if (!started) return started.failure();
    coming_ = std::move(*started);
  }
  const auto here = coming_->test();
  if (!here || !*here) return here;
  app_ = coming_->take();
  coming_.reset();
  return true;
}

Result<void> Groups::renew_background() { return duplicate(*background_origin_, background_); }

}  // namespace backstay::engine
