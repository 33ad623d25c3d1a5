#include "model/text/chat_template.h"
#include "tests/fuzz/target.h"

/// A chat template, rendered with a conversation that has something of everything.
void fuzz(std::string_view input) {
  const auto parsed =
      model::text::ChatTemplate::parse(input, R"({"bos_token":"<s>","eos_token":"</s>"})", "t");
  if (!parsed.ok()) {
    fuzzing::require(!parsed.error().problems.empty());
    return;
  }
  model::text::ChatInput chat;
  chat.messages_json =
      R"([{"role":"system","content":"be"},{"role":"user","content":[{"type":"text","text":"hi é"}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f",)"
      R"("arguments":{"a":[1,2.5,true,null,"x"]}}}]},{"role":"tool","content":"42"}])";
  chat.tools_json = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  chat.kwargs_json = R"({"enable_thinking":false})";
  const auto rendered = (*parsed)->render(chat);
  if (!rendered.ok()) return;
  std::size_t end = 0;
  for (const model::text::ByteRange& range : rendered->literal) {
    fuzzing::require(range.first >= end && range.first <= range.last && range.last <= rendered->text.size());
    end = range.last;
  }
  (void)model::text::ends_in_open_thought(rendered->text);
}
