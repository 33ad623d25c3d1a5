#include "prompt_check.h"

namespace model {
namespace {

using testing::check_fixture;

TEST(Fixtures, TinyQwen4ExpMatchesTheReferenceKeyByKey) { check_fixture("tiny-qwen4_exp"); }
TEST(Fixtures, TinyQwen4ExpInBf16NestedAndPerExpertMatchesTheReference) {
  check_fixture("tiny-qwen4_exp-bf16");
}
TEST(Fixtures, TinyLlamaMatchesTheReference) { check_fixture("tiny-llama"); }
TEST(Fixtures, TinyQwen3NextMatchesTheReference) { check_fixture("tiny-qwen3_next"); }
TEST(Fixtures, TinyQwen3_5MatchesTheReference) { check_fixture("tiny-qwen3_5"); }
TEST(Fixtures, TinyQwen3_5MoeMatchesTheReference) { check_fixture("tiny-qwen3_5_moe"); }
TEST(Fixtures, TinyQwen3MatchesTheReference) { check_fixture("tiny-qwen3"); }
TEST(Fixtures, TinyQwen3MoeMatchesTheReference) { check_fixture("tiny-qwen3_moe"); }

}  // namespace
}  // namespace model
