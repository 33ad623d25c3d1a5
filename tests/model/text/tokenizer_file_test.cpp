#include "model/text/tokenizer_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "model/text/tokenizer.h"

namespace model::text {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Ids = std::vector<TokenId>;

/// A whole file: letters a, b, c and space, "ab", "abc", and a control token.
json small_file() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 6, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
              "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "abc": 5}, "merges": ["a b", "ab c"]}})");
}

std::shared_ptr<const Tokenizer> load(const json& file) {
  auto loaded = Tokenizer::from_json(file.dump(), "tokenizer.json");
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().problems.at(0));
  return loaded ? *loaded : nullptr;
}

std::vector<std::string> problems(const json& file) {
  const auto loaded = Tokenizer::from_json(file.dump(), "tokenizer.json");
  return loaded ? std::vector<std::string>() : loaded.error().problems;
}

TEST(TokenizerFile, ASmallFileLoadsAndEncodes) {
  const auto tokenizer = load(small_file());
  EXPECT_EQ(tokenizer->encode("abc ab<x>ba"), (Ids{5, 3, 4, 6, 1, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{5, 3, 6}, true), "abc ");
  EXPECT_EQ(tokenizer->size(), 7);
}

TEST(TokenizerFile, WhatIsNotSupportedIsRefusedByItsKey) {
  const struct {
    const char* pointer;
    const char* value;
    const char* key;
  } cases[] = {
      {"/truncation", R"({"max_length": 5})", "truncation"},
      {"/padding", R"({"strategy": "BatchLongest"})", "padding"},
      {"/surprise", "1", "surprise"},
      {"/normalizer", R"({"type": "NFKC"})", "normalizer.type"},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})",
       "normalizer.normalizers[1].type"},
      {"/pre_tokenizer", "null", "pre_tokenizer"},
      {"/pre_tokenizer", R"({"type": "Whitespace"})", "pre_tokenizer.type"},
      {"/pre_tokenizer/add_prefix_space", "true", "pre_tokenizer.add_prefix_space"},
      {"/pre_tokenizer/surprise", "true", "pre_tokenizer.surprise"},
      {"/pre_tokenizer",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}]})",
       "pre_tokenizer"},
      {"/pre_tokenizer",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "a"}, "behavior": "MergedWithNext", "invert": false}]})",
       "pre_tokenizer.pretokenizers[0].behavior"},
      {"/pre_tokenizer",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": false}]})",
       "pre_tokenizer.pretokenizers[0].pattern"},
      {"/post_processor", R"({"type": "RobertaProcessing"})", "post_processor.type"},
      {"/decoder", R"({"type": "Metaspace"})", "decoder.type"},
      {"/decoder", "null", "decoder"},
      {"/model", "7", "model"},
      {"/model/type", R"("WordPiece")", "model.type"},
      {"/model/dropout", "0.1", "model.dropout"},
      {"/model/byte_fallback", "true", "model.byte_fallback"},
      {"/model/ignore_merges", "3", "model.ignore_merges"},
      {"/model/continuing_subword_prefix", R"("##")", "model.continuing_subword_prefix"},
      {"/model/end_of_word_suffix", R"("</w>")", "model.end_of_word_suffix"},
      {"/model/unk_token", R"("<unk>")", "model.unk_token"},
      {"/model/surprise", "0", "model.surprise"},
      {"/model/vocab", "[]", "model.vocab"},
      {"/model/vocab/a", "-1", "model.vocab['a']"},
      {"/model/vocab/a", "16777216", "model.vocab['a']"},
      {"/model/vocab/a", "1.5", "model.vocab['a']"},
      {"/model/vocab/a", "1", "is taken"},
      {"/model/vocab/a b", "9", "model.vocab['a b']"},
      {"/model/vocab/世", "9", "model.vocab['世']"},
      {"/model/merges/0", R"("a z")", "model.merges[0]"},
      {"/model/merges/1", R"("b c")", "model.merges[1]"},
      {"/model/merges/1", R"("a b c")", "model.merges[1]"},
      {"/model/merges/1", R"(["a"])", "model.merges[1]"},
      {"/model/merges", "null", "model.merges"},
      {"/added_tokens", "7", "added_tokens"},
      {"/added_tokens/0", "7", "added_tokens[0]"},
      {"/added_tokens/0/id", "1", "added_tokens[0].id"},
      {"/added_tokens/0/id", "null", "added_tokens[0].id"},
      {"/added_tokens/0/content", R"("")", "added_tokens[0].content"},
      {"/added_tokens/0/content", R"("ab")", "added_tokens[0].id"},
      {"/added_tokens/0/special", "1", "added_tokens[0].special"},
      {"/added_tokens/0/surprise", "1", "added_tokens[0].surprise"},
      {"/added_tokens/1", R"({"id": 6, "content": "<y>"})", "added_tokens[1].id"},
      {"/added_tokens/1", R"({"id": 7, "content": "<x>"})", "added_tokens[1].content"},
  };
  for (const auto& c : cases) {
    json file = small_file();
    file[json::json_pointer(c.pointer)] = json::parse(c.value);
    EXPECT_THAT(problems(file), testing::Contains(AllOf(HasSubstr("tokenizer.json: "), HasSubstr(c.key))))
        << c.pointer << c.value;
  }
}

TEST(TokenizerFile, EveryProblemIsListed) {
  json file = small_file();
  file["decoder"]["type"] = "WordPiece";
  file["model"]["byte_fallback"] = true;
  file["normalizer"] = {{"type", "StripAccents"}};
  EXPECT_EQ(problems(file).size(), 3U);
}

TEST(TokenizerFile, BrokenJsonAndDuplicateKeysAreErrors) {
  EXPECT_FALSE(Tokenizer::from_json("", "f"));
  EXPECT_FALSE(Tokenizer::from_json("{\"model\":", "f"));
  EXPECT_FALSE(Tokenizer::from_json(std::string(100'000, '['), "f"));
  std::string text = small_file().dump();
  text.replace(text.find("\"abc\":5"), 7, "\"abc\":5,\"abc\":7");
  const auto loaded = Tokenizer::from_json(text, "f");
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().problems.at(0), HasSubstr("appears twice"));
}

TEST(TokenizerFile, MergesMayBePairs) {
  json file = small_file();
  file["model"]["merges"] = json::parse(R"([["a", "b"], ["ab", "c"]])");
  EXPECT_EQ(load(file)->encode("abc"), (Ids{5}));
}

TEST(TokenizerFile, IgnoreMergesTakesAWordOfTheVocabularyWhole) {
  json file = small_file();
  file["model"]["merges"] = json::array();
  EXPECT_EQ(load(file)->encode("abc"), (Ids{0, 1, 2}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(load(file)->encode("abc ab"), (Ids{5, 3, 0, 1}));  // " ab" is no entry
}

TEST(TokenizerFile, BytesWithoutATokenAreUnknownOrVanish) {
  json file = small_file();
  EXPECT_EQ(load(file)->encode("azb"), (Ids{4}));
  file["model"]["unk_token"] = "c";
  EXPECT_EQ(load(file)->encode("azb"), (Ids{0, 2, 1}));
}

TEST(TokenizerFile, AddedTokensMayBeTokensOfTheVocabulary) {
  json file = small_file();
  file["model"]["vocab"]["<x>"] = 6;
  file["model"]["vocab"]["<y z>"] = 7;
  file["added_tokens"].push_back(
      {{"id", 7}, {"content", "<y z>"}, {"special", false}, {"normalized", false}});
  EXPECT_EQ(load(file)->encode("a<y z><x>"), (Ids{0, 7, 6}));
  EXPECT_EQ(load(file)->decode(Ids{7}, true), "<y z>");
}

TEST(TokenizerFile, PostProcessorsThatOnlyInsertOnRequestAreAccepted) {
  json file = small_file();
  file["post_processor"] = json::parse(
      R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": []}]})");
  EXPECT_EQ(load(file)->encode("ab"), (Ids{4}));
}

TEST(TokenizerFile, DigitsAndSplitsCutBeforeByteLevel) {
  json file = small_file();
  for (const char c : std::string("0123456789")) file["model"]["vocab"][std::string(1, c)] = 10 + (c - '0');
  file["model"]["vocab"]["12"] = 30;
  file["model"]["merges"].push_back("1 2");
  EXPECT_EQ(load(file)->encode("a12"), (Ids{0, 30}));
  const json byte_level = file["pre_tokenizer"];
  const auto with = [&](const char* part) {
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {json::parse(part), byte_level}}};
    return load(file)->encode("a12 ab");
  };
  EXPECT_EQ(with(R"({"type": "Digits", "individual_digits": true})"), (Ids{0, 11, 12, 3, 4}));
  EXPECT_EQ(with(R"({"type": "Digits", "individual_digits": false})"), (Ids{0, 30, 3, 4}));
  EXPECT_EQ(with(R"({"type": "Split", "pattern": {"Regex": "1"}, "behavior": "Isolated", "invert": true})"),
            (Ids{0, 11, 12, 3, 4}));
  EXPECT_EQ(with(R"({"type": "Split", "pattern": {"Regex": "1"}, "behavior": "Removed", "invert": false})"),
            (Ids{0, 12, 3, 4}));
  EXPECT_EQ(
      with(R"({"type": "Split", "pattern": {"Regex": "12| ab"}, "behavior": "Removed", "invert": true})"),
      (Ids{30, 3, 4}));
}

}  // namespace
}  // namespace model::text
