#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/text/tokenizer_pattern.h"

#include <pcre2.h>

#include "model/text/unicode.h"

namespace model::text {
namespace {

// A run of a megabyte of any class fits; what is above the limits is no pattern that a tokenizer should have.
constexpr std::uint32_t kMatchLimit = 200'000'000;
constexpr std::uint32_t kHeapLimitKib = 1 << 20;
constexpr std::size_t kJitStackStart = 64 << 10,
                      kJitStackMax = 256 << 20;  // only address space until it is used

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};

const pcre2_code* code_of(const std::shared_ptr<const void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

std::variant<std::shared_ptr<const void>, PatternError> compile_pcre(const std::string& pattern) {
  // ^ and $ are the ends of lines in Oniguruma.
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  std::size_t place = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), kOptions,
                                   &error, &place, context.get());
  if (code == nullptr) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(error, message, sizeof message);
    return PatternError{reinterpret_cast<const char*>(message)};
  }
  // Where a system forbids executable memory this fails, and the interpreter gives the same matches.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return std::shared_ptr<const void>(
      code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
}

}  // namespace

/// The memory of one call of split.
class WordSplitter::Matching {
 public:
  Matching(const std::vector<Rule>& rules, const std::function<void(std::string_view)>& on_word)
      : rules_(rules), on_word_(on_word) {
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
  }

  void split(std::string_view text, std::size_t rule_index) {
    if (text.empty()) return;
    if (rule_index == rules_.size()) return on_word_(text);
    const Rule& rule = rules_[rule_index];
    std::size_t told = 0;  // end of the last match
    for (std::size_t from = 0; from <= text.size();) {
      const auto [first, last] = match(rule, text, from);
      if (first == PCRE2_UNSET) break;
      if (first == last && last == told) {  // an empty match there cuts nothing more
        if (from >= text.size()) break;
        from += first_utf8_unit(text.substr(from)).length;
        continue;
      }
      if (rule.keep_gaps) split(text.substr(told, first - told), rule_index + 1);
      if (rule.keep_matches) split(text.substr(first, last - first), rule_index + 1);
      told = from = last;
    }
    if (rule.keep_gaps) split(text.substr(told), rule_index + 1);
  }

 private:
  struct Match {
    std::size_t first, last;
  };

  /// A match limit counts as no match: what is left stays one piece. That is deterministic, loses no text,
  /// and needs a pattern that explodes.
  Match match(const Rule& rule, std::string_view text, std::size_t from) {
    const auto run = [&] {
      return pcre2_match(code_of(rule.code), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK, results_.get(), context_.get());
    };
    int found = run();
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && jit_stack_ == nullptr) {
      jit_stack_.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
      pcre2_jit_stack_assign(context_.get(), nullptr, jit_stack_.get());
      found = run();
    }
    if (found < 0) return {PCRE2_UNSET, PCRE2_UNSET};
    const std::size_t* ends = pcre2_get_ovector_pointer(results_.get());
    return {ends[0], ends[1]};
  }

  const std::vector<Rule>& rules_;
  const std::function<void(std::string_view)>& on_word_;
  std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> jit_stack_;
  std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context_{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> results_{
      pcre2_match_data_create(1, nullptr)};
};

Result<WordSplitter, LoadError> WordSplitter::compile(const std::vector<SplitRule>& rules,
                                                      std::string_view file) {
  WordSplitter splitter;
  LoadError problems;
  for (const SplitRule& rule : rules) {
    const auto report = [&](const PatternError& error) {
      problems.problems.push_back(std::string(file) + ": " + rule.key + ": " + error.what);
    };
    auto pattern = pcre_of_oniguruma(rule.regex);
    if (const auto* error = std::get_if<PatternError>(&pattern)) {
      report(*error);
      continue;
    }
    auto code = compile_pcre(std::get<std::string>(pattern));
    if (const auto* error = std::get_if<PatternError>(&code)) {
      report(*error);
      continue;
    }
    splitter.rules_.push_back({std::get<0>(std::move(code)), rule.keep_matches, rule.keep_gaps});
  }
  if (!problems.problems.empty()) return problems;
  return splitter;
}

void WordSplitter::split(std::string_view text, const std::function<void(std::string_view)>& on_word) const {
  Matching(rules_, on_word).split(text, 0);
}

}  // namespace model::text
