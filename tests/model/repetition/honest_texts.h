#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Texts that repeat much and mean it: what a repetition watchdog must leave alone. Seeded, so they are the
/// same everywhere; the detector was tuned on `kTuneSeed` and is judged on `kTestSeed`.
namespace model::repetition::corpus {

inline constexpr std::uint64_t kTuneSeed = 1000;
inline constexpr std::uint64_t kTestSeed = 900'000;
inline constexpr int kTextsPerClass = 25;

/// SplitMix64: the standard distributions differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// From least to most.
  int between(int least, int most) {
    return least + static_cast<int>(next() % static_cast<std::uint64_t>(most - least + 1));
  }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[next() % list.size()];
  }

 private:
  std::uint64_t state_;
};

inline const std::vector<std::string>& words() {
  static const std::vector<std::string> list = {
      "river", "stone", "cloud",  "the",   "a",     "lamp",  "window",  "open",   "green", "seven",
      "and",   "walks", "slowly", "north", "table", "under", "forgets", "paper",  "of",    "glass",
      "wind",  "old",   "sings",  "bread", "with",  "mill",  "yellow",  "garden", "ship",  "remembers"};
  return list;
}
inline std::string phrase(Random& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + random.of(words());
  return text;
}
inline std::string padded(int value, int digits) {
  std::string text = std::to_string(value);
  return std::string(static_cast<std::size_t>(digits) > text.size()
                         ? static_cast<std::size_t>(digits) - text.size()
                         : 0,
                     '0') +
         text;
}
inline std::string hex(std::uint64_t value, int digits) {
  std::string text;
  for (int i = digits - 1; i >= 0; --i) text += "0123456789abcdef"[(value >> (4 * i)) & 15];
  return text;
}

inline std::string coordinate_tuples(Random& random) {
  std::string text = "points = [\n";
  int x = random.between(0, 50), y = random.between(0, 50);
  for (int i = random.between(30, 120); i > 0; --i) {
    text += "    (" + std::to_string(x) + ", " + std::to_string(y) + "),\n";
    x += random.between(1, 3);
    y += random.between(0, 2);
  }
  return text + "]\n";
}
inline std::string coordinate_objects(Random& random) {
  std::string text = "{\"points\": [";
  const int step = random.between(1, 10);
  const int count = random.between(20, 80);
  for (int i = 0; i < count; ++i) {
    text += std::string(i == 0 ? "" : ", ") + "{\"x\": " + std::to_string(i * step) + ", \"y\": 0, \"z\": 0}";
  }
  return text + "]}\n";
}
inline std::string csv(Random& random) {
  std::string text = "id,name,active,score,comment\n";
  const std::string name = random.of(words());
  const int count = random.between(30, 90);
  for (int i = 1; i <= count; ++i) {
    text +=
        std::to_string(i) + "," + (random.between(0, 3) == 0 ? random.of(words()) : name) + ",true,0.0,\n";
  }
  return text;
}
inline std::string markdown_table(Random& random) {
  const int columns = random.between(3, 6);
  std::string head = "|", line = "|";
  for (int c = 0; c < columns; ++c) {
    head += " " + random.of(words()) + " |";
    line += "---|";
  }
  std::string text = head + "\n" + line + "\n";
  const int rows = random.between(15, 40);
  for (int r = 1; r <= rows; ++r) {
    text += "| " + std::to_string(r) + " |";
    for (int c = 1; c < columns; ++c) text += random.between(0, 2) == 0 ? " - |" : " yes |";
    text += "\n";
  }
  return text;
}
/// At most 80 columns: like zeros, what repeats for 256 tokens is a loop by the rule, and a small vocabulary
/// takes three tokens for one stroke.
inline std::string separators(Random& random) {
  const std::string strokes = random.of(std::vector<std::string>{"-", "=", "*", "- ", "─", "#", "~"});
  std::string text;
  for (int i = random.between(6, 20); i > 0; --i) {
    for (int n = random.between(10, 80) / static_cast<int>(strokes == "- " ? 2 : 1); n > 0; --n)
      text += strokes;
    text += "\n" + phrase(random, random.between(3, 12)) + "\n";
  }
  return text;
}
inline std::string ip_addresses(Random& random) {
  std::string text = "hosts:\n";
  const std::string net =
      "10." + std::to_string(random.between(0, 255)) + "." + std::to_string(random.between(0, 9)) + ".";
  const int first = random.between(0, 99), count = random.between(30, 110);
  for (int i = 0; i < count; ++i) text += "  - " + net + std::to_string(first + i) + "\n";
  return text;
}
inline std::string hex_dump(Random& random) {
  std::string text;
  const int lines = random.between(20, 60);
  for (int line = 0; line < lines; ++line) {
    text += hex(static_cast<std::uint64_t>(line) * 16, 8) + ": ";
    const bool zero = random.between(0, 9) < 7;
    for (int i = 0; i < 8; ++i) text += hex(zero ? 0 : random.next(), 4) + " ";
    text += " ................\n";
  }
  return text;
}
/// Up to about 200 tokens of zeros: a longer run cannot be told from a loop, and is one by the rule.
inline std::string zero_arrays(Random& random) {
  const std::string zero = random.of(std::vector<std::string>{"0", "0.0", "0x00"});
  std::string text;
  for (int i = random.between(3, 8); i > 0; --i) {
    text += "static const int " + random.of(words()) + "_" + std::to_string(i) + "[] = {";
    for (int n = random.between(8, zero.size() > 1 ? 30 : 60); n > 0; --n) text += zero + (n > 1 ? ", " : "");
    text += "};\n" + phrase(random, random.between(2, 6)) + "\n";
  }
  return text;
}
inline std::string logs(Random& random) {
  std::string text;
  int second = random.between(0, 59), minute = random.between(0, 40);
  const std::string what = phrase(random, 3);
  for (int i = random.between(20, 70); i > 0; --i) {
    second += random.between(1, 9);
    minute += second / 60;
    second %= 60;
    text += "2031-05-07 08:" + padded(minute, 2) + ":" + padded(second, 2) + " INFO worker: " + what +
            (random.between(0, 4) == 0 ? " retry" : "") + "\n";
  }
  return text;
}
inline std::string code(Random& random) {
  std::string text = "switch (kind) {\n";
  const int count = random.between(15, 40);
  for (int i = 0; i < count; ++i) {
    text += "    case " + std::to_string(i) + ":\n        return \"" + random.of(words()) +
            "\";\n        break;\n";
  }
  text += "}\n";
  for (int i = random.between(2, 6); i > 0; --i) text += "}\n\n";
  for (int i = random.between(4, 12); i > 0; --i)
    text += "assert f(" + std::to_string(i) + ") == f(" + std::to_string(i + 1) + ")\n";
  return text;
}
inline std::string poem(Random& random) {
  const std::string refrain =
      phrase(random, random.between(4, 9)) + ",\n" + phrase(random, random.between(3, 7)) + ".\n";
  std::string text;
  for (int verse = random.between(5, 10); verse > 0; --verse) {
    for (int line = random.between(2, 4); line > 0; --line)
      text += phrase(random, random.between(4, 8)) + "\n";
    text += refrain;
    if (random.between(0, 2) == 0) text += refrain;
    if (random.between(0, 3) == 0) {
      const std::string cry = random.of(words());
      for (int n = random.between(3, 9); n > 0; --n) text += cry + " ";
      text += "\n";
    }
    text += "\n";
  }
  return text;
}
inline std::string arithmetic(Random& random) {
  std::string text;
  int sum = 0;
  const int step = random.between(0, 12);
  for (int i = random.between(25, 80); i > 0; --i) {
    text += "Add " + std::to_string(step) + ": " + std::to_string(sum) + " + " + std::to_string(step) +
            " = " + std::to_string(sum + step) + "\n";
    sum += step == 0 ? 1 : step;
  }
  return text;
}
inline std::string check_list(Random& random) {
  std::string text;
  for (int i = random.between(15, 40); i > 0; --i)
    text += "- [ ] " + phrase(random, random.between(1, 3)) + "\n";
  return text;
}
inline std::string configuration(Random& random) {
  std::string text = "[\n";
  const int count = random.between(12, 40);
  for (int i = 0; i < count; ++i) {
    text += "  {\"id\": " + std::to_string(100 + i) +
            ", \"name\": null, \"tags\": [], \"enabled\": false, \"parent\": null},\n";
  }
  return text + "]\n";
}

struct HonestClass {
  const char* name;
  std::string (*make)(Random&);
};
inline const std::vector<HonestClass>& honest_classes() {
  static const std::vector<HonestClass> list = {{"coordinate tuples", coordinate_tuples},
                                                {"coordinate objects", coordinate_objects},
                                                {"csv", csv},
                                                {"markdown table", markdown_table},
                                                {"separators", separators},
                                                {"ip addresses", ip_addresses},
                                                {"hex dump", hex_dump},
                                                {"zero arrays", zero_arrays},
                                                {"logs", logs},
                                                {"code", code},
                                                {"poem", poem},
                                                {"arithmetic", arithmetic},
                                                {"check list", check_list},
                                                {"configuration", configuration}};
  return list;
}

struct HonestText {
  std::string name;
  std::string text;
};
inline std::vector<HonestText> honest_texts(std::uint64_t seed) {
  std::vector<HonestText> texts;
  for (std::size_t c = 0; c < honest_classes().size(); ++c) {
    for (int i = 0; i < kTextsPerClass; ++i) {
      Random random(seed + 1000 * c + static_cast<std::uint64_t>(i));
      texts.push_back({std::string(honest_classes()[c].name) + " " + std::to_string(i),
                       honest_classes()[c].make(random)});
    }
  }
  return texts;
}

}  // namespace model::repetition::corpus
