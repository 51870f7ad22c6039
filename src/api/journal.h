// What a session tells people: sentences on stderr, events.jsonl, session.json. Rank 0 speaks for all.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "api/options.h"

namespace backstay::api {

/// Safe from several threads. Failures to write are not failures of the run: they are ignored.
class Journal {
 public:
  /// `speaks`: this is rank 0.
  Journal(bool speaks, Log log, std::string dir);

  /// "backstay: sentence" on stderr, unless log=quiet.
  void say(const std::string& sentence);
  /// The same only with log=verbose.
  void detail(const std::string& sentence);

  /// One line appended to events.jsonl: {"time": ..., "event": NAME, ...numbers and texts}.
  struct Field {
    std::string name;
    std::string text;
    double number = 0;
    bool is_text = false;
  };
  static Field text(std::string name, std::string value) { return {std::move(name), std::move(value), 0, true}; }
  static Field number(std::string name, double value) { return {std::move(name), "", value, false}; }
  void event(const std::string& name, const std::vector<Field>& fields);

  /// session.json, for the command line: who runs here and where the node directories are.
  struct About {
    std::string program;
    int ranks = 1;
    std::vector<std::string> levels;
    std::vector<std::pair<int, std::string>> local_dirs;  ///< node, path
  };
  void describe(const About& about);

 private:
  bool speaks_;
  Log log_;
  std::string dir_;
  std::mutex mutex_;
};

}  // namespace backstay::api
