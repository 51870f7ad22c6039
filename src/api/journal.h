// What a session tells people: sentences on stderr, events.jsonl, session.json. Rank 0 speaks for all.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "api/options.h"
#include "backstay/error.hpp"

namespace backstay::api {

/// For `backstay run`, which need not launch again what can never work. By one rank.
void tell_launcher(Code why);
/// For `backstay run`, where events cannot be written, as the directory of the job is gone, or full: a line of its own.
void tell_launcher(const std::string& what);

/// Safe from several threads. Failures to write are not failures of the run: they are ignored.
class Journal {
 public:
  /// `name`: of the session, where there are several; may be empty.
  Journal(int rank, Log log, std::string dir, std::string name);

  /// "backstay: sentence" on stderr, unless log=quiet; with a name "backstay (name): sentence".
  void say(const std::string& sentence);
  /// Of ranks that are missed: rank 1 says it, too, as it may be rank 0 that is away.
  void say_of_others(const std::string& sentence);
  /// Whatever rank this is.
  void insist(const std::string& sentence) { write(sentence); }
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
  /// The same, whatever rank this is.
  void event_of_rank(const std::string& name, const std::vector<Field>& fields);

  /// session.json, for the command line: who runs here and where the node directories are.
  struct About {
    std::string program;
    int ranks = 1;
    std::vector<std::string> levels;
    std::vector<std::pair<int, std::string>> local_dirs;  ///< node, path
  };
  void describe(const About& about);

 private:
  void write(const std::string& sentence);

  int rank_;
  bool speaks_;
  Log log_;
  std::string dir_;
  std::string name_;
  std::mutex mutex_;
};

}  // namespace backstay::api
