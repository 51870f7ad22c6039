#include "base/text.h"

#include <gtest/gtest.h>

namespace backstay {

TEST(text, crcs_are_eight_lower_case_digits_both_ways) {
  EXPECT_EQ(hex8(0x9af1), "00009af1");
  EXPECT_EQ(parse_hex8("00009af1"), 0x9af1U);
  for (const char* bad : {"", "9af1", "00009AF1", "0000 af1", "+0009af1", "000009af1"})
    EXPECT_FALSE(parse_hex8(bad)) << bad;
}

TEST(text, decimals_have_digits_only) {
  EXPECT_EQ(parse_decimal("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", " 1", "1 ", "-1", "+1", "1.5", "0x1", "18446744073709551616"})
    EXPECT_FALSE(parse_decimal(bad)) << bad;
}

TEST(text, reals_are_finite_and_not_negative) {
  EXPECT_EQ(parse_real("2.5"), 2.5);
  for (const char* bad : {"", "-1", "nan", "inf", "1s", " 1", "1e999"}) EXPECT_FALSE(parse_real(bad)) << bad;
}

TEST(text, split_keeps_empty_pieces) {
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_TRUE(split("", ',').empty());
}

TEST(text, nearest_word_is_the_one_with_fewest_edits) {
  EXPECT_EQ(nearest("intervall", {"every", "interval", "keep"}), "interval");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(text, sizes_and_times_have_three_digits) {
  EXPECT_EQ(human_bytes(17), "17 bytes");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(human_seconds(125), "125 s");
}

}  // namespace backstay
