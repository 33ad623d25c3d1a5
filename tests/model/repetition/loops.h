#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "model/text/tokenizer.h"
#include "tests/model/repetition/honest_texts.h"

/// True loops: an honest beginning, then one period of tokens again and again.
namespace model::repetition::corpus {

struct Loop {
  std::string name;
  std::vector<TokenId> ids;
  std::size_t begins = 0;  ///< index of the first token of the first period
  std::size_t period = 1;
  bool numeric = false;  ///< digits, punctuation and white space
};

/// Shortest p with which the whole list repeats.
inline std::size_t primitive_period(const std::vector<TokenId>& ids) {
  for (std::size_t p = 1; p < ids.size(); ++p) {
    if (ids.size() % p == 0 &&
        std::equal(ids.begin() + static_cast<std::ptrdiff_t>(p), ids.end(), ids.begin()))
      return p;
  }
  return ids.size();
}

inline std::string word_unit(Random& random, int kind) {
  switch (kind) {
    case 0:
      return " " + random.of(words());
    case 1:
      return " " + phrase(random, random.between(2, 5)) + ".";
    case 2:
      return phrase(random, random.between(3, 12)) + "\n";
    case 3:
      return "I should " + phrase(random, random.between(2, 8)) + ". Wait, " +
             phrase(random, random.between(2, 8)) + ".\n\n";
    case 4:
      return "    return " + random.of(words()) + "(" + random.of(words()) + ");\n";
    case 5:
      return "* **" + random.of(words()) + "**: " + phrase(random, random.between(2, 10)) + "\n";
    case 6:
      return "<p>" + phrase(random, random.between(1, 6)) + "</p>";
    case 7:
      return "ja ";
    case 8:
      return " größe über";
    default:
      return phrase(random, random.between(12, 30)) + ", ";
  }
}
inline std::string numeric_unit(Random& random, int kind) {
  switch (kind) {
    case 0:
      return "0, ";
    case 1:
      return "0.0, ";
    case 2:
      return "---|";
    case 3:
      return "| " + std::to_string(random.between(0, 99)) + " | 0 |\n";
    case 4:
      return "(" + std::to_string(random.between(0, 99)) + ", " + std::to_string(random.between(0, 99)) +
             "), ";
    case 5:
      return hex(random.next(), 4) + " 0000 ";
    case 6:
      return "10.0." + std::to_string(random.between(0, 255)) + ".1\n";
    case 7:
      return "\n";
    case 8:
      return "=";
    default:
      return std::to_string(random.between(1000, 999'999)) + " ";
  }
}

/// `count` loops; every fourth one is numeric.
inline std::vector<Loop> loops(const text::Tokenizer& tokenizer, std::uint64_t seed, int count) {
  constexpr std::size_t kLongestPeriod = 64, kTokensOfLoop = 700;
  std::vector<Loop> list;
  for (std::uint64_t i = 0; static_cast<int>(list.size()) < count; ++i) {
    Random random(seed + 77'000'000 + i);
    Loop loop;
    loop.numeric = list.size() % 4 == 3;
    const int kind = random.between(0, 9);
    const std::string unit = loop.numeric ? numeric_unit(random, kind) : word_unit(random, kind);
    auto period = tokenizer.encode_ordinary(unit);
    period.resize(std::min(period.size(), kLongestPeriod));
    loop.period = primitive_period(period);
    // The beginning is prose, so that where the loop begins is no matter of opinion.
    loop.ids = tokenizer.encode_ordinary(phrase(random, random.between(0, 60)) + "?!\n");
    loop.begins = loop.ids.size();
    while (loop.ids.size() < loop.begins + kTokensOfLoop)
      loop.ids.insert(loop.ids.end(), period.begin(), period.end());
    loop.name = std::to_string(i) + (loop.numeric ? " numeric " : " words ") + std::to_string(kind) +
                ", period " + std::to_string(loop.period);
    list.push_back(std::move(loop));
  }
  return list;
}

}  // namespace model::repetition::corpus
