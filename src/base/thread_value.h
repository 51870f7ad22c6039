// Values of each thread that calls may come to when the thread has ended.
#pragma once

namespace backstay {

/// That of this thread. Null once the thread's own end has destroyed it: exit() does so first of all, before what the
/// program has registered for its end and before static objects are destroyed, whose calls may come here.
template <typename Value>
Value* of_this_thread() {
  thread_local bool is_gone = false;  // has no destructor, so it stays
  struct Held {
    Value value{};
    ~Held() { is_gone = true; }
  };
  if (is_gone) return nullptr;
  thread_local Held held;
  return &held.value;
}

}  // namespace backstay
