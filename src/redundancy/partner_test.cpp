#include "redundancy/partner.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/fake_comm.h"
#include "store/memory_store.h"

namespace backstay::redundancy {
namespace {

TEST(partner, copies_lie_on_the_next_node) {
  const auto plan = plan_partners({0, 0, 1, 1, 2, 2, 3, 3}, 1);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->holder, (std::vector<int>{2, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(plan->rounds.size(), 1U);
}

TEST(partner, uneven_nodes_take_several_rounds_and_no_copy_stays_at_home) {
  for (int distance = 1; distance <= 2; ++distance) {
    const std::vector<int> nodes{0, 1, 1, 1, 2, 2, 0, 1};
    const auto plan = plan_partners(nodes, distance);
    ASSERT_TRUE(plan.ok());
    std::set<std::pair<int, int>> sent;
    for (const auto& round : plan->rounds)
      for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
        if (round[rank].to < 0) continue;
        sent.insert({static_cast<int>(rank), round[rank].to});
        EXPECT_EQ(round[static_cast<std::size_t>(round[rank].to)].from, static_cast<int>(rank));
        EXPECT_NE(nodes[rank], nodes[static_cast<std::size_t>(round[rank].to)]);
      }
    EXPECT_EQ(sent.size(), nodes.size());
  }
}

TEST(partner, one_node_or_a_full_turn_is_refused) {
  EXPECT_EQ(plan_partners({0, 0, 0}, 1).failure().code, Code::invalid_argument);
  EXPECT_EQ(plan_partners({0, 1}, 2).failure().code, Code::invalid_argument);
  EXPECT_TRUE(plan_partners({0, 1}, 3).ok());
}

TEST(partner, images_arrive_whole_at_every_size) {
  for (std::size_t size : {0UL, 1UL, 4096UL, 9000001UL})
    comm::run_ranks(5, [&](comm::Comm& comm) {
      const auto plan = plan_partners({0, 0, 1, 1, 1}, 1);
      const auto store = store::make_memory_store();
      ASSERT_TRUE(store->make_dir("d").ok());
      const Bytes front(100, std::byte{7}),
          area(size + static_cast<std::size_t>(comm.rank()), static_cast<std::byte>(comm.rank()));
      const FileImage image{{{0, front}, {8192, area}}, 8192 + area.size(), {}};
      ASSERT_TRUE(exchange_copies(comm, *plan, image, *store, "d").ok());
      for (int rank = 0; rank < 5; ++rank) {
        if (plan->holder[static_cast<std::size_t>(rank)] != comm.rank()) continue;
        const auto copy = store::read_file(*store, "d/copy-rank-0000" + std::to_string(rank) + ".h5", 1U << 30);
        ASSERT_TRUE(copy.ok());
        const std::size_t bytes = size + static_cast<std::size_t>(rank);
        ASSERT_EQ(copy->size(), bytes == 0 ? 100 : 8192 + bytes);
        EXPECT_EQ((*copy)[99], std::byte{7});
        for (std::size_t i = 8192; i < copy->size(); ++i) ASSERT_EQ((*copy)[i], static_cast<std::byte>(rank));
      }
    });
}

}  // namespace
}  // namespace backstay::redundancy
