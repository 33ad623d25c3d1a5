#include <gtest/gtest.h>

#include "http/openai/chat_request.h"
#include "http/openai/completion_request.h"
#include "model/sampling/sampling_limits.h"
#include "tests/http/fake_engine.h"
#include "tests/http/fake_text.h"

namespace http::openai {
namespace {

using Kind = model::RequestError::Kind;
using Parsed = model::Result<ParsedRequest, model::RequestError>;

struct Given {
  Given() {
    served->tokenizer = std::make_shared<ByteTokenizer>();
    served->chat_template = std::make_shared<EchoTemplate>();
    context.served = served.get();
    context.request_id = "id-1";
    context.fresh_seed = 99;
  }
  Parsed chat(const std::string& fields,
              const std::string& messages = R"([{"role":"user","content":"hi"}])") const {
    return parse_chat_request(R"({"messages":)" + messages + (fields.empty() ? "" : "," + fields) + "}",
                              context);
  }
  Parsed completion(const std::string& fields) const {
    return parse_completion_request("{" + fields + "}", context);
  }

  std::shared_ptr<actors::ServedModel> served = fake_model();
  RequestContext context;
};

TEST(ChatRequest, TakesAsManyStopTokensAsAStepCanBan) {
  Given given;
  given.served->stop_tokens = {0, 1};
  const auto with = [&](std::int32_t num_ids) {
    std::string ids = "5";
    for (std::int32_t i = 1; i < num_ids; ++i) ids += ",5";
    return given.chat(R"("min_tokens":1,"stop_token_ids":[)" + ids + ']');
  };
  EXPECT_TRUE(with(model::kMaxBans - 2).ok());
  const auto refused = with(model::kMaxBans - 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "stop_token_ids");
}

TEST(ChatRequest, FillsInDefaults) {
  const auto parsed = Given().chat("");
  ASSERT_TRUE(parsed.ok());
  const auto& generate = *parsed->generate;
  EXPECT_EQ(generate.id, "id-1");
  EXPECT_EQ(generate.n, 1);
  EXPECT_FALSE(generate.max_tokens);
  EXPECT_FALSE(generate.timeout);
  EXPECT_FALSE(generate.ignore_eos);
  EXPECT_TRUE(generate.skip_special_tokens);
  EXPECT_TRUE(generate.split_reasoning);
  EXPECT_EQ(generate.sampling.temperature, 1.0F);
  EXPECT_EQ(generate.sampling.top_p, 1.0F);
  EXPECT_EQ(generate.sampling.top_k, 0);
  EXPECT_EQ(generate.sampling.repetition_penalty, 1.0F);
  EXPECT_EQ(generate.sampling.seed, 99U);
  EXPECT_EQ(generate.sampling.num_logprobs, -1);
  EXPECT_FALSE(parsed->answer.stream);
}

constexpr const char* kEveryField =
    R"("model":"alias","max_tokens":7,"max_completion_tokens":5,"temperature":0.5,"top_p":0.25,"top_k":3,"min_p":0.125,
      "presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,"logit_bias":{"5":-100,"999":100},
      "seed":18446744073709551615,"stop":["a","b"],"include_stop_str_in_output":true,"min_tokens":2,"ignore_eos":true,
      "stop_token_ids":[0,999],"n":16,"logprobs":true,"top_logprobs":20,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true},"timeout":1.5,"return_token_ids":true,
      "skip_special_tokens":false,"user":"u","metadata":{"k":1},"response_format":{"type":"text"},"tools":[],
      "tool_choice":"auto","parallel_tool_calls":true,"unknown":[{}])";

TEST(ChatRequest, PassesEveryFieldOn) {
  const auto parsed = Given().chat(kEveryField);
  ASSERT_TRUE(parsed.ok()) << parsed.error().what;
  const auto& generate = *parsed->generate;
  EXPECT_EQ(generate.max_tokens, 5);
  EXPECT_EQ(generate.min_tokens, 2);
  EXPECT_EQ(generate.n, 16);
  EXPECT_EQ(generate.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(generate.stop_token_ids, (std::vector<model::TokenId>{0, 999}));
  EXPECT_TRUE(generate.include_stop_str_in_output && generate.ignore_eos && !generate.skip_special_tokens);
  EXPECT_EQ(generate.timeout, std::chrono::milliseconds(1500));
  const auto& sampling = generate.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_p, 0.25F);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.presence_penalty, 1.0F);
  EXPECT_EQ(sampling.frequency_penalty, -1.0F);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.seed, 18446744073709551615U);
  EXPECT_EQ(sampling.num_logprobs, 20);
  EXPECT_EQ(sampling.logit_bias,
            (std::vector<std::pair<model::TokenId, float>>{{5, -100.0F}, {999, 100.0F}}));
  const auto& answer = parsed->answer;
  EXPECT_TRUE(answer.stream && answer.include_usage && answer.continuous_usage && answer.return_token_ids);
}

TEST(ChatRequest, ReadsNullAsAbsent) {
  const auto parsed = Given().chat(
      R"("max_tokens":null,"temperature":null,"stop":null,"n":null,"stream":null,"stream_options":null,"tools":null,
      "logit_bias":null,"seed":null,"response_format":null,"logprobs":null,"top_logprobs":null,"tool_choice":null,"user":null)");
  ASSERT_TRUE(parsed.ok()) << parsed.error().what;
  EXPECT_FALSE(parsed->generate->max_tokens);
}

TEST(ChatRequest, NamesTheFieldThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":"16")", "max_tokens"},
      {R"("max_tokens":true)", "max_tokens"},
      {R"("max_tokens":[16])", "max_tokens"},
      {R"("max_tokens":2147483648)", "max_tokens"},
      {R"("max_tokens":99999999999999999999)", "max_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":5,"max_tokens":4)", "min_tokens"},
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":1e999)", "temperature"},
      {R"("top_p":[])", "top_p"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.01)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.0)", "top_k"},
      {R"("min_p":-1)", "min_p"},
      {R"("presence_penalty":3)", "presence_penalty"},
      {R"("frequency_penalty":-3)", "frequency_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":18446744073709551616)", "seed"},
      {R"("n":0)", "n"},
      {R"("n":17)", "n"},
      {R"("n":"2")", "n"},
      {R"("stop":"")", "stop"},
      {R"("stop":["x",""])", "stop[1]"},
      {R"("stop":[5])", "stop[0]"},
      {R"("stop":5)", "stop"},
      {R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])", "stop"},
      {R"("stop_token_ids":[1000])", "stop_token_ids[0]"},
      {R"("stop_token_ids":1)", "stop_token_ids"},
      {R"("logit_bias":{"1000":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"hello":1})", "logit_bias"},
      {R"("logit_bias":{"5.0":1})", "logit_bias"},
      {R"("logit_bias":{"":1})", "logit_bias"},
      {R"("logit_bias":{"5":100.5})", "logit_bias"},
      {R"("logit_bias":{"5":1e39})", "logit_bias"},
      {R"("logit_bias":{"5":null})", "logit_bias"},
      {R"("logit_bias":{"5":"1"})", "logit_bias"},
      {R"("logit_bias":[5])", "logit_bias"},
      {R"("logprobs":"yes")", "logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("stream":"true")", "stream"},
      {R"("stream":true,"stream_options":true)", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("model":7)", "model"},
      {R"("user":7)", "user"},
      {R"("metadata":"x")", "metadata"},
      {R"("timeout":0)", "timeout"},
      {R"("timeout":"1")", "timeout"},
      {R"("tools":{})", "tools"},
      {R"("tools":[{}])", "tools[0].function"},
      {R"("tools":[7])", "tools[0]"},
      {R"("tool_choice":5)", "tool_choice"},
      {R"("tool_choice":"maybe")", "tool_choice"},
      {R"("response_format":5)", "response_format"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("enable_thinking":"no")", "enable_thinking"},
      {R"("reasoning_effort":"much")", "reasoning_effort"},
      {R"("reasoning_effort":3)", "reasoning_effort"},
      {R"("ignore_eos":0)", "ignore_eos"},
  };
  for (const auto& [fields, param] : cases) {
    const auto parsed = Given().chat(fields);
    ASSERT_FALSE(parsed.ok()) << fields;
    EXPECT_EQ(parsed.error().param, param) << fields;
    EXPECT_EQ(parsed.error().kind, Kind::invalid) << fields;
    EXPECT_FALSE(parsed.error().what.empty());
  }
}

TEST(ChatRequest, RefusesWhatIsNotServedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("tools":[{"type":"function","function":{"name":"f"}}])", "tools"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
      {R"("structured_outputs":{"regex":"a"})", "structured_outputs"},
      {R"("functions":[])", "functions"},
      {R"("echo":true)", "echo"},
      {R"("continue_final_message":true)", "continue_final_message"},
      {R"("modalities":["audio"])", "modalities"},
  };
  for (const auto& [fields, param] : cases) {
    const auto parsed = Given().chat(fields);
    ASSERT_FALSE(parsed.ok()) << fields;
    EXPECT_EQ(parsed.error().param, param);
    EXPECT_EQ(parsed.error().code, "unsupported_parameter");
  }
}

TEST(ChatRequest, ReadsItsOwnThresholdsOfRepetition) {
  const auto none = Given().chat("");
  EXPECT_FALSE(none->generate->repetition_detection);
  EXPECT_FALSE(none->generate->streams);
  EXPECT_FALSE(Given().chat(R"("repetition_detection":null)")->generate->repetition_detection);
  const auto parsed = Given().chat(
      R"("stream":true,"repetition_detection":{"min_pattern_size":2,"max_pattern_size":20,"min_count":4})");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->generate->streams);
  const auto& thresholds = parsed->generate->repetition_detection.value();
  EXPECT_EQ(thresholds.min_period, 2);
  EXPECT_EQ(thresholds.max_period, 20);
  EXPECT_EQ(thresholds.min_repeats, 4);
  EXPECT_EQ(thresholds.min_tokens, 0);
  EXPECT_EQ(thresholds.min_tokens_numeric, 0);
  const auto short_form = Given().chat(R"("repetition_detection":{"max_pattern_size":64,"min_count":2})");
  EXPECT_EQ(short_form->generate->repetition_detection->min_period, 1);
  const auto off = Given().chat(R"("repetition_detection":{"max_pattern_size":0})");
  EXPECT_EQ(off->generate->repetition_detection->max_period, 0);
}

TEST(ChatRequest, NamesWhatIsWrongWithItsThresholdsOfRepetition) {
  const std::pair<const char*, const char*> cases[] = {
      {"5", "repetition_detection"},
      {"true", "repetition_detection"},
      {"[]", "repetition_detection"},
      {"{}", "repetition_detection.max_pattern_size"},
      {R"({"min_count":3})", "repetition_detection.max_pattern_size"},
      {R"({"max_pattern_size":"8","min_count":3})", "repetition_detection.max_pattern_size"},
      {R"({"max_pattern_size":65,"min_count":3})", "repetition_detection.max_pattern_size"},
      {R"({"max_pattern_size":-1,"min_count":3})", "repetition_detection.max_pattern_size"},
      {R"({"max_pattern_size":8.5,"min_count":3})", "repetition_detection.max_pattern_size"},
      {R"({"max_pattern_size":8})", "repetition_detection.min_count"},
      {R"({"max_pattern_size":8,"min_count":1})", "repetition_detection.min_count"},
      {R"({"max_pattern_size":8,"min_count":1000001})", "repetition_detection.min_count"},
      {R"({"max_pattern_size":8,"min_count":3,"min_pattern_size":9})",
       "repetition_detection.min_pattern_size"},
      {R"({"max_pattern_size":8,"min_count":3,"min_pattern_size":"2"})",
       "repetition_detection.min_pattern_size"},
  };
  for (const auto& [value, param] : cases) {
    const auto parsed = Given().chat("\"repetition_detection\":" + std::string(value));
    ASSERT_FALSE(parsed.ok()) << value;
    EXPECT_EQ(parsed.error().param, param) << value;
    EXPECT_EQ(parsed.error().kind, Kind::invalid) << value;
  }
}

TEST(ChatRequest, NamesTheMessageThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "messages"},
      {"null", "messages"},
      {R"("hi")", "messages"},
      {R"({"role":"user","content":"hi"})", "messages"},
      {"[null]", "messages[0]"},
      {"[{}]", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"assistant"}])", "messages[0].content"},
      {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
      {R"([{"role":7,"content":"x"}])", "messages[0].role"},
      {R"([{"role":"user","content":7}])", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}])",
       "messages[1].content[1].type"},
      {R"([{"role":"assistant","content":"","tool_calls":{}}])", "messages[0].tool_calls"},
      {R"([{"role":"assistant","content":"","tool_calls":[{"function":{}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role":"user","content":"a","name":5}])", "messages[0].name"},
  };
  for (const auto& [messages, param] : cases) {
    const auto parsed = Given().chat("", messages);
    ASSERT_FALSE(parsed.ok()) << messages;
    EXPECT_EQ(parsed.error().param, param) << messages;
  }
  EXPECT_EQ(parse_chat_request("{}", Given().context).error().param, "messages");
}

const actors::ChatPrompt& chat_of(const Parsed& parsed) {
  return std::get<actors::ChatPrompt>(parsed->generate->prompts.front());
}

TEST(ChatRequest, JoinsPartsAndKnowsTheNewerNameOfSystem) {
  const auto parsed = Given().chat(
      "", R"([{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b\n"}]},
      {"content":"c","role":"user","name":"N"}])");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(chat_of(parsed).messages_json,
            R"([{"role":"system","content":"ab\n"},{"role":"user","content":"c","name":"N"}])");
}

TEST(ChatRequest, GivesAToolTurnWithoutTextAnEmptyOne) {
  const std::string call =
      R"("tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}])";
  for (const std::string content : {R"("content":null,)", R"("content":"",)", ""}) {
    const auto parsed = Given().chat("", R"([{"role":"assistant",)" + content + call +
                                             R"(},{"role":"tool","tool_call_id":"c","content":"5"}])");
    ASSERT_TRUE(parsed.ok()) << parsed.error().what;
    EXPECT_EQ(chat_of(parsed).messages_json, R"([{"role":"assistant","content":"",)" + call +
                                                 R"(},{"role":"tool","content":"5","tool_call_id":"c"}])");
  }
}

TEST(ChatRequest, LaysTemplateKwargsOverTheOperators) {
  Given given;
  EXPECT_EQ(chat_of(given.chat("")).kwargs_json, "");
  EXPECT_EQ(chat_of(given.chat(R"("enable_thinking":false)")).kwargs_json, R"({"enable_thinking":false})");
  EXPECT_EQ(chat_of(given.chat(R"("reasoning_effort":"low")")).kwargs_json, R"({"reasoning_effort":"low"})");
  EXPECT_EQ(
      chat_of(given.chat(R"("reasoning_effort":"none","chat_template_kwargs":{"reasoning_effort":"high"})"))
          .kwargs_json,
      R"({"enable_thinking":false,"reasoning_effort":"none"})");
  EXPECT_EQ(chat_of(given.chat(R"("reasoning_effort":"none","enable_thinking":true)")).kwargs_json,
            R"({"enable_thinking":true,"reasoning_effort":"none"})");
  EXPECT_EQ(chat_of(given.chat(
                        R"("chat_template_kwargs":{"a":1.0,"enable_thinking":true},"enable_thinking":false)"))
                .kwargs_json,
            R"({"a":1.0,"enable_thinking":false})");
  given.context.default_template_kwargs = R"({"b":{}})";
  EXPECT_EQ(chat_of(given.chat("")).kwargs_json, R"({"b":{}})");
  EXPECT_EQ(chat_of(given.chat(R"("chat_template_kwargs":{"a":1})")).kwargs_json, R"({"b":{},"a":1})");
}

TEST(ChatRequest, BoundsTheNamesOfTemplateKwargs) {
  for (const auto& [names, ok] : {std::pair{256, true}, {257, false}}) {
    std::string kwargs = "\"chat_template_kwargs\":{";
    for (int i = 0; i < names; ++i) kwargs += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":0";
    const auto parsed = Given().chat(kwargs + '}');
    ASSERT_EQ(parsed.ok(), ok);
    EXPECT_EQ(ok ? "chat_template_kwargs" : parsed.error().param, "chat_template_kwargs");
  }
}

TEST(ChatRequest, ServesItsOwnNamesOnly) {
  EXPECT_TRUE(Given().chat(R"("model":"mini")").ok());
  const auto other = Given().chat(R"("model":"other")");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, Kind::model_not_found);
  EXPECT_EQ(other.error().param, "model");
}

TEST(ChatRequest, NeedsATokenizerAndATemplate) {
  Given given;
  given.served->chat_template = nullptr;
  EXPECT_EQ(given.chat("").error().code, "no_chat_template");
  given.served->tokenizer = nullptr;
  EXPECT_EQ(given.chat("").error().code, "no_tokenizer");
  EXPECT_EQ(given.chat("").error().kind, Kind::unsupported);
}

TEST(SamplingDefaults, ComeFromTheModelUnlessToldOtherwise) {
  Given given;
  auto& defaults = given.served->generation;
  defaults.temperature = 0.6F;
  defaults.top_p = 0.9F;
  defaults.top_k = 20;
  defaults.min_p = 0.1F;
  defaults.repetition_penalty = 1.2F;
  const auto models = given.chat("")->generate->sampling;
  EXPECT_EQ(models.temperature, 0.6F);
  EXPECT_EQ(models.top_p, 0.9F);
  EXPECT_EQ(models.top_k, 20);
  EXPECT_EQ(models.min_p, 0.1F);
  EXPECT_EQ(models.repetition_penalty, 1.0F);  // no penalty that the request does not set
  const auto asked = given.chat(R"("temperature":0,"top_k":-1,"top_p":1,"min_p":0,"repetition_penalty":1)")
                         ->generate->sampling;
  EXPECT_EQ(asked.temperature, 0.0F);
  EXPECT_EQ(asked.top_k, 0);
  EXPECT_EQ(asked.repetition_penalty, 1.0F);
  given.context.sampling_defaults = SamplingDefaults::none;
  const auto none = given.chat("")->generate->sampling;
  EXPECT_EQ(none.temperature, 1.0F);
  EXPECT_EQ(none.top_k, 0);
  EXPECT_EQ(none.repetition_penalty, 1.0F);
}

TEST(SamplingDefaults, ReadDoSampleFalseAsGreedyOnlyWhereTheRequestIsSilent) {
  Given given;
  given.served->generation.do_sample = false;
  EXPECT_EQ(given.chat("")->generate->sampling.temperature, 0.0F);
  EXPECT_EQ(given.chat(R"("temperature":0.7)")->generate->sampling.temperature, 0.7F);
}

TEST(Timeout, MayBeLoweredByARequestAndNeverRaised) {
  Given given;
  given.context.request_timeout = std::chrono::seconds(10);
  EXPECT_EQ(given.chat("")->generate->timeout, std::chrono::seconds(10));
  EXPECT_EQ(given.chat(R"("timeout":2)")->generate->timeout, std::chrono::seconds(2));
  EXPECT_EQ(given.chat(R"("timeout":20)")->generate->timeout, std::chrono::seconds(10));
}

TEST(CompletionRequest, TakesPromptsInFourForms) {
  const auto prompts = [](const std::string& prompt) { return Given().completion(R"("prompt":)" + prompt); };
  EXPECT_EQ(std::get<actors::TextPrompt>(prompts(R"("a")")->generate->prompts[0]).text, "a");
  EXPECT_EQ(prompts(R"(["a","b"])")->generate->prompts.size(), 2U);
  EXPECT_EQ(std::get<actors::TokenPrompt>(prompts("[1,2]")->generate->prompts[0]).ids,
            (std::vector<model::TokenId>{1, 2}));
  const auto lists = prompts("[[1],[2,999]]");
  ASSERT_TRUE(lists.ok());
  EXPECT_EQ(std::get<actors::TokenPrompt>(lists->generate->prompts[1]).ids,
            (std::vector<model::TokenId>{2, 999}));
  EXPECT_FALSE(lists->generate->max_tokens);  // the room that is left, not sixteen
  EXPECT_FALSE(lists->generate->split_reasoning);
}

TEST(CompletionRequest, NamesThePromptThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("prompt":[-1])", "prompt[0]"},
      {R"("prompt":[[-1]])", "prompt[0][0]"},
      {R"("prompt":[1,1000])", "prompt[1]"},
      {R"("prompt":[4294967295])", "prompt[0]"},
      {R"("prompt":[18446744073709551616])", "prompt[0]"},
      {R"("prompt":[1.5])", "prompt[0]"},
      {R"("prompt":[])", "prompt"},
      {R"("prompt":[[]])", "prompt[0]"},
      {R"("prompt":null)", "prompt"},
      {R"("prompt":7)", "prompt"},
      {R"("prompt":{})", "prompt"},
      {R"("prompt":["a",1])", "prompt[1]"},
      {R"("prompt":[1,"a"])", "prompt[1]"},
      {R"("max_tokens":1)", "prompt"},
      {R"("prompt":"a","logprobs":true)", "logprobs"},
      {R"("prompt":"a","logprobs":21)", "logprobs"},
  };
  for (const auto& [fields, param] : cases) {
    const auto parsed = Given().completion(fields);
    ASSERT_FALSE(parsed.ok()) << fields;
    EXPECT_EQ(parsed.error().param, param) << fields;
  }
}

TEST(CompletionRequest, RefusesWhatIsNotServedByName) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("best_of":2)", "best_of"}, {R"("n":2,"best_of":3)", "best_of"}, {R"("suffix":"x")", "suffix"}};
  for (const auto& [fields, param] : cases) {
    const auto parsed = Given().completion(R"("prompt":"a",)" + fields);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().param, param);
    EXPECT_EQ(parsed.error().code, "unsupported_parameter");
  }
  EXPECT_TRUE(Given().completion(R"("prompt":"a","echo":false,"best_of":1,"suffix":null)").ok());
  EXPECT_TRUE(Given().completion(R"("prompt":"a","n":3,"best_of":3)").ok());
}

TEST(CompletionRequest, TakesNoTokensOnlyWithAnEcho) {
  const auto echo = Given().completion(R"("prompt":"a","echo":true,"max_tokens":0)");
  ASSERT_TRUE(echo.ok());
  EXPECT_TRUE(echo->generate->echo);
  EXPECT_EQ(echo->generate->max_tokens, 0);
  EXPECT_EQ(Given().completion(R"("prompt":"a","max_tokens":0)").error().param, "max_tokens");
  EXPECT_EQ(Given().completion(R"("prompt":"a","echo":"yes")").error().param, "echo");
}

TEST(Requests, OfMoreChoicesThanTheServerEverTakesAreRefused) {
  Given given;
  given.context.max_sequences = 5;
  EXPECT_TRUE(given.chat(R"("n":5)").ok());
  const auto chat = given.chat(R"("n":6)");
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().param, "n");
  EXPECT_NE(chat.error().what.find("at most 5"), std::string::npos);
  EXPECT_TRUE(given.completion(R"("prompt":["a","b"],"n":2)").ok());
  EXPECT_EQ(given.completion(R"("prompt":["a","b"],"n":3)").error().param, "n");
  EXPECT_EQ(given.completion(R"("prompt":["a","b","c","d","e","f"])").error().param, "prompt");
}

TEST(CompletionRequest, BoundsTheNumberOfChoices) {
  std::string prompts = R"("a")";
  for (int i = 1; i < 17; ++i) prompts += R"(,"a")";
  EXPECT_FALSE(Given().completion(R"("n":16,"prompt":[)" + prompts + "]").ok());
  EXPECT_TRUE(Given().completion(R"("n":15,"prompt":[)" + prompts + "]").ok());
}

TEST(CompletionRequest, TakesTokenIdsWithoutATokenizer) {
  Given given;
  given.served->tokenizer = nullptr;
  EXPECT_TRUE(given.completion(R"("prompt":[1])").ok());
  EXPECT_EQ(given.completion(R"("prompt":"a")").error().code, "no_tokenizer");
  EXPECT_EQ(given.completion(R"("prompt":[1],"stop":"a")").error().param, "stop");
}

}  // namespace
}  // namespace http::openai
