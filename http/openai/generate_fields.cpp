#include "http/openai/generate_fields.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "model/sampling/sampling_limits.h"

namespace http::openai {
namespace {

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::int64_t kMaxPatternCount = 1'000'000;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

/// Served by no build yet, or meaningless here: silence would answer something else than was asked.
constexpr std::string_view kUnsupported[] = {
    "structured_outputs", "guided_json",        "guided_regex",           "guided_choice",
    "guided_grammar",     "functions",          "function_call",          "prompt_logprobs",
    "use_beam_search",    "kv_transfer_params", "truncate_prompt_tokens", "logits_processors"};

void read_temperature(Fields& fields, const RequestContext& context, model::SamplingParams& sampling) {
  const auto asked = fields.number("temperature", 0.0, 2.0);
  const auto& defaults = context.served->generation;
  if (asked) {
    sampling.temperature = *asked;
  } else if (context.sampling_defaults == SamplingDefaults::model) {
    const bool greedy = defaults.do_sample && !*defaults.do_sample;
    sampling.temperature = greedy ? 0.0F : defaults.temperature.value_or(1.0F);
  }
}

void read_sampling(Fields& fields, const RequestContext& context, model::SamplingParams& sampling) {
  read_temperature(fields, context, sampling);
  if (context.sampling_defaults == SamplingDefaults::model) {
    const auto& defaults = context.served->generation;
    sampling.top_p = defaults.top_p.value_or(1.0F);
    sampling.top_k = defaults.top_k.value_or(0);
    sampling.min_p = defaults.min_p.value_or(0.0F);
  }
  sampling.top_p = fields.number("top_p", 0.0, 1.0, Fields::Bound::above).value_or(sampling.top_p);
  sampling.min_p = fields.number("min_p", 0.0, 1.0).value_or(sampling.min_p);
  if (const auto top_k = fields.integer("top_k", -1, kMaxInt))
    sampling.top_k = std::max(0, static_cast<std::int32_t>(*top_k));
  sampling.presence_penalty = fields.number("presence_penalty", -2.0, 2.0).value_or(0.0F);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2.0, 2.0).value_or(0.0F);
  // The model's own penalty is not taken over: none is applied that the request does not set.
  sampling.repetition_penalty = fields.number("repetition_penalty", 0.01, 100.0).value_or(1.0F);
  sampling.seed = fields.seed("seed").value_or(context.fresh_seed);
}

void read_logit_bias(Fields& fields, std::int32_t vocab_size, model::SamplingParams& sampling) {
  const Json* map = fields.find("logit_bias", Json::Kind::object);
  if (map == nullptr) return;
  if (std::ssize(map->items) > model::kMaxBiases) {
    return fields.refuse("logit_bias",
                         "logit_bias takes at most " + std::to_string(model::kMaxBiases) + " tokens.");
  }
  for (std::size_t i = 0; i < map->items.size(); ++i) {
    const std::string_view key = map->keys[i];
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc{} || end != key.data() + key.size() || token < 0 || token >= vocab_size) {
      return fields.refuse("logit_bias", "A key of logit_bias is not a token id from 0 to " +
                                             std::to_string(vocab_size - 1) + '.');
    }
    const auto bias = as_number(map->items[i]);
    if (!bias || !(*bias >= -100.0 && *bias <= 100.0)) {
      return fields.refuse("logit_bias", "logit_bias of token " + std::to_string(token) +
                                             " has to be a number from -100 to 100.");
    }
    sampling.logit_bias.emplace_back(token, static_cast<float>(*bias));
  }
}

void read_stops(Fields& fields, const RequestContext& context, actors::GenerateRequest& generate) {
  const auto add = [&](const Json& stop, const std::string& path) {
    if (!stop.is(Json::Kind::string))
      return fields.refuse(path, path + " has to be a string, not " + std::string(name_of(stop.kind)) + '.');
    if (stop.text.empty()) return fields.refuse(path, path + " must not be empty.");
    if (stop.text.size() > kMaxStopBytes) {
      return fields.refuse(path, path + " is longer than " + std::to_string(kMaxStopBytes) + " bytes.");
    }
    generate.stop.emplace_back(stop.text);
  };
  if (const Json* stop = fields.find("stop")) {
    if (!stop->is(Json::Kind::array)) {
      add(*stop, "stop");
    } else if (stop->items.size() > kMaxStops) {
      fields.refuse("stop", "stop takes at most " + std::to_string(kMaxStops) + " strings.");
    } else {
      for (std::size_t i = 0; i < stop->items.size(); ++i)
        add(stop->items[i], "stop[" + std::to_string(i) + ']');
    }
    if (!generate.stop.empty() && !context.served->tokenizer) {
      fields.refuse({model::RequestError::Kind::unsupported,
                     "stop needs a tokenizer, and this model has none.", "stop", "no_tokenizer"});
    }
  }
  if (const Json* ids = fields.find("stop_token_ids", Json::Kind::array)) {
    // min_tokens bans them together with the model's own.
    const auto most = model::kMaxBans - std::ssize(context.served->stop_tokens);
    if (std::ssize(ids->items) > most) {
      fields.refuse("stop_token_ids", "stop_token_ids takes at most " + std::to_string(most) + " ids.");
    } else {
      generate.stop_token_ids =
          read_token_ids(fields, *ids, "stop_token_ids", context.served->config.vocab_size);
    }
  }
}

/// A pattern of min…max_pattern_size tokens that is said min_count times in a row ends the answer.
/// max_pattern_size 0 turns the server's own watchdog off for this request.
void read_repetition_detection(Fields& fields, actors::GenerateRequest& generate) {
  const Json* object = fields.find("repetition_detection", Json::Kind::object);
  if (object == nullptr) return;
  Fields own(*object, fields.path_of("repetition_detection"));
  const auto longest = own.integer("max_pattern_size", 0, model::repetition::kLongestPeriod);
  const auto shortest = own.integer("min_pattern_size", 0, model::repetition::kLongestPeriod);
  const auto count = own.integer("min_count", longest == 0 ? 0 : 2, kMaxPatternCount);
  if (own.ok() && !longest)
    own.refuse(own.path_of("max_pattern_size"), own.path_of("max_pattern_size") + " is missing.");
  if (own.ok() && *longest > 0 && !count)
    own.refuse(own.path_of("min_count"), own.path_of("min_count") + " is missing.");
  if (own.ok() && shortest.value_or(0) > *longest) {
    own.refuse(own.path_of("min_pattern_size"),
               own.path_of("min_pattern_size") + " is larger than max_pattern_size.");
  }
  if (own.error()) return fields.refuse(*own.error());
  auto& thresholds = generate.repetition_detection.emplace();
  thresholds.min_period = static_cast<std::int32_t>(std::max<std::int64_t>(shortest.value_or(1), 1));
  thresholds.max_period = static_cast<std::int32_t>(*longest);
  thresholds.min_repeats = static_cast<std::int32_t>(count.value_or(0));
  thresholds.min_tokens = thresholds.min_tokens_numeric = 0;
}

void read_limits(Fields& fields, const RequestContext& context, std::int64_t least_max_tokens,
                 actors::GenerateRequest& generate) {
  const auto old_name = fields.integer("max_tokens", least_max_tokens, kMaxInt);
  const auto new_name = fields.integer("max_completion_tokens", 1, kMaxInt);
  if (const auto budget = new_name ? new_name : old_name)
    generate.max_tokens = static_cast<std::int32_t>(*budget);
  generate.min_tokens = static_cast<std::int32_t>(fields.integer("min_tokens", 0, kMaxInt).value_or(0));
  if (generate.max_tokens && generate.min_tokens > *generate.max_tokens) {
    fields.refuse("min_tokens", "min_tokens is larger than the budget of " +
                                    std::to_string(*generate.max_tokens) + " tokens.");
  }
  generate.n = static_cast<std::int32_t>(fields.integer("n", 1, 16).value_or(1));
  generate.overlength = context.overlength;
  generate.timeout = context.request_timeout;
  if (const auto seconds = fields.number("timeout", 0.0, 1e6, Fields::Bound::above)) {
    const std::chrono::milliseconds asked(
        std::max<std::int64_t>(1, static_cast<std::int64_t>(*seconds * 1000.0F)));
    if (!generate.timeout || asked < *generate.timeout) generate.timeout = asked;
  }
}

void read_answer_options(Fields& fields, AnswerOptions& answer) {
  answer.stream = fields.boolean("stream").value_or(false);
  answer.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  const Json* options = fields.find("stream_options", Json::Kind::object);
  if (options == nullptr) return;
  if (!answer.stream) return fields.refuse("stream_options", "stream_options needs stream: true.");
  Fields inner(*options, "stream_options");
  answer.include_usage = inner.boolean("include_usage").value_or(false);
  answer.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false) && answer.include_usage;
  if (inner.error()) fields.refuse(*inner.error());
}

void read_response_format(Fields& fields) {
  const Json* format = fields.find("response_format", Json::Kind::object);
  if (format == nullptr) return;
  Fields inner(*format, "response_format");
  const auto type = inner.string("type");
  if (inner.error()) return fields.refuse(*inner.error());
  if (!type) return fields.refuse("response_format.type", "response_format.type is missing.");
  if (*type == "json_object" || *type == "json_schema") return fields.refuse_unsupported("response_format");
  if (*type != "text")
    fields.refuse("response_format.type", "response_format.type has to be text, json_object or json_schema.");
}

}  // namespace

void check_choices(Fields& fields, const RequestContext& context, const actors::GenerateRequest& generate) {
  const auto choices = static_cast<std::int64_t>(generate.prompts.size()) * generate.n;
  auto most = static_cast<std::int64_t>(kMaxChoices);
  if (context.max_sequences > 0) most = std::min(most, context.max_sequences);
  if (choices <= most) return;
  const bool several = generate.prompts.size() > 1;
  fields.refuse(generate.n > 1 ? "n" : "prompt",
                (several ? "prompts times n are " : "n asks for ") + std::to_string(choices) +
                    " choices; this server takes at most " + std::to_string(most) + " at once.");
}

void read_model_name(Fields& fields, const actors::ServedModel& served) {
  const auto name = fields.string("model");
  if (!name || std::find(served.names.begin(), served.names.end(), *name) != served.names.end()) return;
  fields.refuse({model::RequestError::Kind::model_not_found,
                 "This server does not serve the model asked for; it serves " + served.names.front() + '.',
                 "model", "model_not_found"});
}

std::size_t most_values(const actors::ServedModel& served) {
  return kMostValues + static_cast<std::size_t>(served.plan.max_seq_len);
}

std::vector<model::TokenId> read_token_ids(Fields& fields, const Json& list, const std::string& path,
                                           std::int32_t vocab_size) {
  std::vector<model::TokenId> ids;
  ids.reserve(list.items.size());
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const auto id = as_integer(list.items[i]);
    if (!id || *id < 0 || *id >= vocab_size) {
      const std::string place = path + '[' + std::to_string(i) + ']';
      fields.refuse(place, place + " has to be a token id from 0 to " + std::to_string(vocab_size - 1) + '.');
      return {};
    }
    ids.push_back(static_cast<model::TokenId>(*id));
  }
  return ids;
}

void read_shared_fields(Fields& fields, const RequestContext& context, std::int64_t least_max_tokens,
                        ParsedRequest& parsed) {
  actors::GenerateRequest& generate = *parsed.generate;
  generate.id = context.request_id;
  read_model_name(fields, *context.served);
  read_limits(fields, context, least_max_tokens, generate);
  read_sampling(fields, context, generate.sampling);
  read_logit_bias(fields, context.served->config.vocab_size, generate.sampling);
  read_stops(fields, context, generate);
  generate.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  generate.include_stop_str_in_output = fields.boolean("include_stop_str_in_output").value_or(false);
  generate.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  read_repetition_detection(fields, generate);
  read_answer_options(fields, parsed.answer);
  generate.streams = parsed.answer.stream;
  read_response_format(fields);
  fields.string("user");
  fields.find("metadata", Json::Kind::object);
  for (const std::string_view name : kUnsupported) {
    const Json* value = fields.find(name);
    const bool off = value != nullptr && value->is(Json::Kind::boolean) && !value->boolean;
    if (value != nullptr && !off) fields.refuse_unsupported(name);
  }
}

}  // namespace http::openai
