#include "api/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backstay/config.hpp"

namespace backstay::api {

namespace {
using Json = nlohmann::ordered_json;

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// One write, so that lines of several processes never mix.
void write_once(const std::string& path, int flags, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | flags, 0644);
  if (file < 0) return;
  if (::write(file, text.data(), text.size()) < 0) { /* a journal that cannot be written must not stop the run */
  }
  ::close(file);
}
}  // namespace

Journal::Journal(int rank, Log log, std::string dir, std::string name)
    : rank_(rank), speaks_(rank == 0), log_(log), dir_(std::move(dir)), name_(std::move(name)) {}

void Journal::say(const std::string& sentence) {
  if (speaks_) write(sentence);
}

void Journal::say_of_others(const std::string& sentence) {
  if (rank_ == 1) write("rank 1: " + sentence);
  say(sentence);
}

void Journal::write(const std::string& sentence) {
  if (log_ == Log::quiet) return;
  const std::string who = name_.empty() ? "backstay" : "backstay (" + name_ + ")";
  const std::lock_guard lock(mutex_);
  std::fprintf(stderr, "%s: %s\n", who.c_str(), sentence.c_str());
}

void Journal::detail(const std::string& sentence) {
  if (log_ == Log::verbose) say(sentence);
}

void Journal::event(const std::string& name, const std::vector<Field>& fields) {
  if (speaks_) event_of_rank(name, fields);
}

void Journal::event_of_rank(const std::string& name, const std::vector<Field>& fields) {
  if (dir_.empty()) return;
  Json json{{"time", wall_clock()}, {"event", name}};
  for (const auto& field : fields) {
    const bool is_whole = !field.is_text && std::floor(field.number) == field.number && std::abs(field.number) < 9e15;
    if (field.is_text)
      json[field.name] = field.text;
    else if (is_whole)
      json[field.name] = static_cast<std::int64_t>(field.number);
    else
      json[field.name] = field.number;
  }
  write_once(dir_ + "/events.jsonl", O_APPEND, dump(json, -1));
}

namespace {
std::string absolute(const std::string& path) {
  std::error_code ignored;
  const auto full = std::filesystem::weakly_canonical(path, ignored);
  return ignored ? path : full.string();
}

/// Inside the checkpoint directory: relative to it, so that a copy of the whole directory leads to the copy.
std::string seen_from(const std::string& dir, const std::string& path) {
  const std::string base = absolute(dir) + "/", full = absolute(path);
  return full.starts_with(base) ? full.substr(base.size()) : full;
}
}  // namespace

void Journal::describe(const About& about) {
  if (!speaks_ || dir_.empty()) return;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  Json dirs = Json::array();
  for (const auto& [node, path] : about.local_dirs) dirs.push_back({{"node", node}, {"path", seen_from(dir_, path)}});
  const Json json{{"dir", absolute(dir_)}, {"program", about.program}, {"version", BACKSTAY_VERSION},
                  {"pid", getpid()},       {"host", host.data()},      {"started", wall_clock()},
                  {"ranks", about.ranks},  {"levels", about.levels},   {"local_dirs", std::move(dirs)}};
  const std::string path = dir_ + "/session.json";
  write_once(path + ".part", O_TRUNC, dump(json, 1));
  std::error_code ignored;
  std::filesystem::rename(path + ".part", path, ignored);
}

/// The directory is the one that `backstay run` reads: that of the options may be what is wrong.
void tell_launcher(Code why) {
  const bool always = why == Code::invalid_argument || why == Code::unknown_option || why == Code::mismatch ||
                      why == Code::version || why == Code::corrupt;
  const char* const read = std::getenv("BACKSTAY_DIR");
  if (always && read != nullptr && std::getenv("_BACKSTAY_RUN_ID") != nullptr)
    Journal(0, Log::quiet, read, "").event("refused", {});
}

void tell_launcher(const std::string& what) {
  if (const char* const file = std::getenv("_BACKSTAY_ENDED")) write_once(file, O_APPEND, what + "\n");
}

}  // namespace backstay::api
