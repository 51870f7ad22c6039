#include "api/options.h"

#include <gtest/gtest.h>

namespace backstay::api {
namespace {

using Map = std::map<std::string, std::string>;

TEST(options, a_newcomer_sets_nothing) {
  const auto s = read_options({}, {});
  ASSERT_TRUE(s.ok()) << s.failure().what;
  ASSERT_EQ(s->levels.size(), 1U);
  EXPECT_EQ(s->levels[0].kind, engine::LevelKind::shared);
  EXPECT_EQ(s->levels[0].cadence.interval, 60);
  EXPECT_EQ(s->levels[0].keep, 2U);
}

TEST(options, simulated_nodes_get_a_partner_level) {
  const auto s = read_options({}, {{"nodes", "4"}});
  ASSERT_EQ(s->levels.size(), 2U);
  EXPECT_EQ(s->levels[0].kind, engine::LevelKind::partner);
}

TEST(options, levels_are_sorted_cheapest_first_with_their_own_settings) {
  const auto s = read_options(
      {{"levels", "shared,memory"}, {"every", "10"}, {"shared.interval", "600"}, {"keep", "3"}, {"shared.keep", "5"}},
      {});
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->levels[0].kind, engine::LevelKind::memory);
  EXPECT_EQ(s->levels[0].cadence.every, 10U);
  EXPECT_EQ(s->levels[0].keep, 3U);
  EXPECT_EQ(s->levels[1].cadence.every, 0U);
  EXPECT_EQ(s->levels[1].cadence.interval, 600);
  EXPECT_EQ(s->levels[1].keep, 5U);
}

TEST(options, what_is_given_to_levels_that_are_not_chosen_is_known) {
  const auto s = read_options({{"levels", "shared"}, {"local.redundancy", "rs(1,1)"}, {"shared.keep", "3"}},
                              {{"memory2.every", "5"}, {"memory.every", ""}});
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->idle, (std::vector<std::string>{"memory2.every", "local.redundancy"}));
  EXPECT_TRUE(read_options({}, {})->idle.empty());
}

TEST(options, the_constructor_wins_over_the_environment) {
  EXPECT_EQ(read_options({{"dir", "a"}}, {{"dir", "b"}})->dir, "a");
  EXPECT_EQ(read_options({}, {{"dir", "b"}})->dir, "b");
  EXPECT_EQ(read_options({{"name", "ocean"}}, {})->dir, "backstay-checkpoints/ocean");
  EXPECT_TRUE(read_options({{"name", "node-a"}}, {}));
  for (const char* ours : {"node-0", "node-12/b"}) EXPECT_FALSE(read_options({{"name", ours}}, {})) << ours;
}

TEST(options, an_unknown_one_is_refused_with_the_nearest) {
  const auto given = read_options({{"intervall", "3"}}, {});
  EXPECT_EQ(given.failure().code, Code::unknown_option);
  EXPECT_NE(given.failure().what.find("did you mean interval?"), std::string::npos) << given.failure().what;
  const char* environment[] = {"HOME=/", "BACKSTAY_INTERVALL=3", nullptr};
  EXPECT_NE(options_from_environment(environment).failure().what.find("BACKSTAY_INTERVAL?"), std::string::npos);
}

TEST(options, variables_are_read) {
  const char* environment[] = {"BACKSTAY_SHARED_LAYOUT=one-file", "BACKSTAY_DIR=x=y", "BACKSTAY_EVERY=", nullptr};
  const auto read = options_from_environment(environment);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->at("shared.layout"), "one-file");
  EXPECT_EQ(read->at("dir"), "x=y");
  EXPECT_TRUE(read_options({}, *read).ok());  // an empty variable is one that is not set
}

TEST(options, bad_values_say_what_is_wanted) {
  for (const auto& [name, value] : Map{{"every", "0"},
                                       {"every", "-1"},
                                       {"interval", "soon"},
                                       {"interval", "0"},
                                       {"timeout", "1e300"},
                                       {"keep", "0"},
                                       {"levels", "shard"},
                                       {"levels", ","},
                                       {"levels", "memory,shared,memory"},
                                       {"shared.layout", "two-files"},
                                       {"policy", "maybe"},
                                       {"timeout", "0"},
                                       {"staging_limit", "5 apples"},
                                       {"nice", "20"},
                                       {"kill", "x"},
                                       {"kill", "3"},
                                       {"local.redundancy", "rs(0,1)"},
                                       {"local.redundancy", "rs(200,56)"},
                                       {"local.redundancy", "xor"},
                                       {"local.redundancy", "rs(3;1)"},
                                       {"local.unit", "racks"},
                                       {"local.unit", "env:"},
                                       {"local.unit", "nodes:3-1"},
                                       {"local.unit", "nodes:0-x"},
                                       {"local.unit", "nodes:0-999999/0-999999"},
                                       {"signals", "yes"}}) {
    const auto s = read_options({{name, value}}, {});
    ASSERT_FALSE(s.ok()) << name << "=" << value;
    EXPECT_EQ(s.failure().code, Code::invalid_argument);
    EXPECT_NE(s.failure().what.find(name), std::string::npos) << s.failure().what;
  }
}

TEST(options, what_module_systems_say_of_an_installed_package_is_no_option) {
  const char* const variables[] = {"BACKSTAY_ROOT=/opt/backstay", "BACKSTAY_VERSION=0.1.0", "BACKSTAY_DIR=ck", nullptr};
  const auto found = options_from_environment(variables);
  ASSERT_TRUE(found.ok()) << found.failure().what;
  EXPECT_EQ(*found, (Map{{"dir", "ck"}}));
}

TEST(options, parity_has_groups_and_units) {
  const auto plain = read_options({{"levels", "local,shared"}}, {});
  EXPECT_EQ(plain->levels[0].parity.p, 0);
  const auto s = read_options(
      {{"levels", "local,shared"}, {"local.redundancy", "rs(6,2)"}, {"local.unit", "nodes:0-2,5/3-4"}}, {});
  ASSERT_TRUE(s.ok()) << s.failure().what;
  EXPECT_EQ(s->levels[0].parity.k, 6);
  EXPECT_EQ(s->levels[0].parity.p, 2);
  EXPECT_EQ(s->levels[1].parity.p, 0);
  EXPECT_EQ(s->units.at("local").sets, (std::vector<std::vector<int>>{{0, 1, 2, 5}, {3, 4}}));
  EXPECT_EQ(read_options({{"local.unit", "env:RACK"}}, {})->units.at("local").variable, "RACK");
  EXPECT_EQ(read_options({{"levels", "local"}, {"local.redundancy", "rs(128,127)"}}, {})->levels[0].parity.p, 127);
  const auto blanks = read_options({{"levels", "local"}, {"local.redundancy", " rs( 3, 1 ) "}}, {});
  ASSERT_TRUE(blanks.ok()) << blanks.failure().what;
  EXPECT_EQ(blanks->levels[0].parity.k, 3);
}

TEST(options, a_unit_without_redundancy_is_a_forgotten_redundancy) {
  const auto forgotten = read_options({{"levels", "memory,local"}, {"local.unit", "env:RACK"}}, {});
  ASSERT_FALSE(forgotten.ok());
  EXPECT_NE(forgotten.failure().what.find("local.unit"), std::string::npos) << forgotten.failure().what;
  EXPECT_NE(forgotten.failure().what.find("local.redundancy, which is none"), std::string::npos)
      << forgotten.failure().what;
  EXPECT_TRUE(read_options({{"levels", "local"}, {"local.unit", "node"}}, {}).ok());
}

TEST(options, sizes_have_units) {
  EXPECT_EQ(read_options({{"staging_limit", "512MiB"}}, {})->staging_limit, std::uint64_t{512} << 20);
  EXPECT_EQ(read_options({{"staging_limit", "7"}}, {})->staging_limit, 7U);
  EXPECT_EQ(read_options({{"staging_limit", "4294967296"}}, {})->staging_limit, std::uint64_t{4} << 30);
  EXPECT_EQ(read_options({{"staging_limit", "1073741824GiB"}}, {})->staging_limit, std::uint64_t{1} << 60);
  EXPECT_FALSE(read_options({{"staging_limit", "1073741825GiB"}}, {}));
}

TEST(options, a_trial_run_keeps_to_directories_of_its_own) {
  const std::map<std::string, std::string> given{{"dir", "ck"}, {"local_dir", "/local"}, {"every", "7"}};
  auto s = read_options(given, {{"observe", "5"}, {"dir", "/t"}, {"local_dir", "/t/n"}});
  EXPECT_EQ(s->dir, "/t");
  EXPECT_EQ(s->local_dir, "/t/n");
  s = read_options(given, {{"dir", "/t"}, {"local_dir", "/t/n"}});
  EXPECT_EQ(s->dir, "ck");
  EXPECT_EQ(s->local_dir, "/local");
}

TEST(options, kills_are_ranks_or_nodes) {
  const auto s = read_options({{"kill", "5@30,node1@7,6@repair,2@opening"}}, {});
  ASSERT_EQ(s->kills.size(), 4U);
  EXPECT_EQ(s->kills[2].call, api::Kill::in_repair);
  EXPECT_EQ(s->kills[3].call, api::Kill::in_opening);
  EXPECT_FALSE(read_options({{"kill", "5@0"}}, {}));
  EXPECT_FALSE(s->kills[0].node);
  EXPECT_EQ(s->kills[0].call, 30U);
  EXPECT_TRUE(s->kills[1].node);
  EXPECT_EQ(s->kills[1].number, 1);
}

}  // namespace
}  // namespace backstay::api
