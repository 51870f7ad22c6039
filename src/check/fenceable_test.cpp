#include "check/fenceable.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "check/own_pages.h"

namespace backstay::check {
namespace {

/// 16 pages.
class FenceableTest : public ::testing::Test {
 protected:
  FenceableTest()
      : memory_(static_cast<std::byte*>(
            mmap(nullptr, 16 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~FenceableTest() override { munmap(memory_, 16 * page_size); }
  void add(std::size_t offset, std::size_t element, Extents shape, Extents strides) {
    View view;
    view.data = memory_ + offset;
    view.shape = std::move(shape);
    view.strides = std::move(strides);
    regions_.emplace_back(Layout(view, element), Units{}, std::pmr::get_default_resource());
  }
  /// By the numbers of pages.
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> pages() {
    mark_shared(regions_);
    std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> out;
    for (const auto& [begin, end] : fenceable(regions_, own_memory(), allocations_))
      out.emplace_back((begin - memory_) / static_cast<std::ptrdiff_t>(page_size),
                       (end - memory_) / static_cast<std::ptrdiff_t>(page_size));
    return out;
  }
  using Pages = std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>>;
  std::byte* memory_;
  std::vector<Watched> regions_;
  Ranges allocations_;
};

TEST_F(FenceableTest, pages_with_other_memory_are_left_alone) {
  add(100 * 8, 8, {1024}, {8});  // from page 0 into page 2
  EXPECT_EQ(pages(), (Pages{{1, 2}}));
}

TEST_F(FenceableTest, pages_of_its_own_allocation_are_closed_with_it) {
  allocations_ = {{memory_, memory_ + 3 * page_size}, {memory_ + 4 * page_size, memory_ + 5 * page_size}};
  add(100 * 8, 8, {1024}, {8});  // from page 0 into page 2
  EXPECT_EQ(pages(), (Pages{{0, 3}}));
  allocations_[0].second -= 8;  // the rest of page 2 belongs to somebody else
  EXPECT_EQ(pages(), (Pages{{0, 2}}));
  allocations_[0].first += 104 * 8;  // this is not the allocation that has it
  EXPECT_EQ(pages(), (Pages{{1, 2}}));
}

TEST_F(FenceableTest, far_pages_of_its_allocation_are_left_open) {
  allocations_ = {{memory_, memory_ + 16 * page_size}};
  add(3 * page_size + 8, 8, {512}, {8});
  EXPECT_EQ(pages(), (Pages{{3, 5}}));
}

TEST_F(FenceableTest, regions_side_by_side_share_a_page) {
  add(0, 8, {700}, {8});
  add(5600, 8, {836}, {8});
  EXPECT_EQ(pages(), (Pages{{0, 3}}));
  EXPECT_FALSE(regions_[0].is_shared);
}

TEST_F(FenceableTest, rows_with_a_halo_are_one_array) {
  add(130 * 8, 8, {50, 64}, {66 * 8, 8});
  EXPECT_EQ(pages(), (Pages{{1, 6}}));
}

TEST_F(FenceableTest, structs_are_closed_where_all_of_their_members_are_regions) {
  add(0, 8, {1000}, {24});
  add(8, 8, {1000}, {24});
  EXPECT_EQ(pages(), Pages{});  // there may be a lock in the third word
  add(16, 4, {1000}, {24});
  EXPECT_EQ(pages(), (Pages{{0, 5}}));
  EXPECT_FALSE(regions_[0].is_shared || regions_[1].is_shared || regions_[2].is_shared);
}

TEST_F(FenceableTest, elements_of_two_regions_are_told) {
  add(0, 8, {1000}, {8});
  add(4000, 8, {1000}, {8});
  add(8 * page_size, 8, {10}, {8});
  (void)pages();
  EXPECT_TRUE(regions_[0].is_shared);
  EXPECT_TRUE(regions_[1].is_shared);
  EXPECT_FALSE(regions_[2].is_shared);
}

TEST_F(FenceableTest, memory_that_others_share_is_left_alone) {
  ASSERT_NE(
      mmap(memory_ + 2 * page_size, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      MAP_FAILED);
  add(0, 8, {2048}, {8});
  EXPECT_EQ(pages(), Pages{});
}

}  // namespace
}  // namespace backstay::check
