// The options: `name=value` a line as given to the constructor, then an empty line and the variables of a process.
#include "api/options.h"

#include "base/text.h"
#include "target.h"

namespace backstay::fuzz {

namespace {
void expect_sentence(const Failure& failure) {
  expect(failure.code == Code::unknown_option || failure.code == Code::invalid_argument, "a bad option is called so");
  expect(!failure.what.empty(), "a bad option is said in a sentence");
}

Result<std::map<std::string, std::string>> environment_of(const std::vector<std::string>& lines, std::size_t first) {
  std::vector<const char*> variables;
  for (std::size_t i = first; i < lines.size(); ++i) variables.push_back(lines[i].c_str());
  variables.push_back(nullptr);
  return api::options_from_environment(variables.data());
}
}  // namespace

void try_input(ByteView input) {
  const auto lines = split(as_text(input), '\n');
  std::map<std::string, std::string> given;
  std::size_t i = 0;
  for (; i < lines.size() && !lines[i].empty(); ++i) {
    const auto equals = std::min(lines[i].find('='), lines[i].size());
    given[lines[i].substr(0, equals)] = lines[i].substr(std::min(equals + 1, lines[i].size()));
  }
  const auto environment = environment_of(lines, i);
  if (!environment) return expect_sentence(environment.failure());
  const auto settings = api::read_options(given, *environment);
  if (!settings) return expect_sentence(settings.failure());
  expect(!settings->levels.empty() && settings->timeout > 0, "what is accepted can be used");
  for (const auto& level : settings->levels)
    expect(level.keep >= 1 && level.parity.k + level.parity.p <= 255, "what is accepted can be used");
}

Bytes repaired(Bytes input) { return input; }

std::vector<Bytes> seeds() {
  std::string table;
  for (const auto& option : api::option_table()) table += option.name + "=" + option.initial + "\n";
  const std::string all =
      "levels=memory,local,partner,shared\nlocal.redundancy=rs(6,2)\nmemory.unit=nodes:0-3/4-7,9\nkill=1@2,node0@3\n"
      "staging_limit=4GiB\ninterval=0.5\nname=a/b\nlocal_dir=x/%n/%n\nlocal.unit=env:RACK\n";
  std::string variables = "\n";
  for (const char* words : {"BACKSTAY_DIR=a", "BACKSTAY_EVERY=3", "BACKSTAY_ROOT=/opt", "PATH=b",
                            "BACKSTAY_LEVELS=auto", "BACKSTAY_NODES=4", "BACKSTAY_SHARED_FILES=2"})
    variables += std::string(words) + "\n";
  return {bytes_of(table),
          bytes_of(all),
          bytes_of(variables),
          bytes_of(all + variables),
          bytes_of("policy=wait\nlog=verbose\nthreads=2\nlost_rank=return\n"),
          bytes_of("shred.evry=1\n")};
}

}  // namespace backstay::fuzz
