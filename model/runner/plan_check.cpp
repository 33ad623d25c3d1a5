#include "model/runner/plan_check.h"

#include <algorithm>

#include "kernels/recurrent.h"

namespace model {
namespace {

using Problem = std::optional<std::string>;

std::string str(std::int64_t n) { return std::to_string(n); }

/// Fields whose meaning this Runner does not execute: saying so beats ignoring them.
Problem not_executable(const Feed& feed, const StepPlan& plan) {
  const auto names_slot = [&](const auto& command) { return command.slot == feed.slot; };
  if (feed.from_step_in_flight) return "an input sampled by a step in flight cannot be executed";
  if (feed.num_drafts != 0) return "num_drafts " + str(feed.num_drafts) + " cannot be executed";
  if (feed.mask) return "a token mask cannot be executed";
  if (std::any_of(plan.restores.begin(), plan.restores.end(), names_slot))
    return "restore cannot be executed";
  if (std::any_of(plan.captures.begin(), plan.captures.end(), names_slot))
    return "capture cannot be executed";
  return std::nullopt;
}

Problem check_slot(const Feed& feed, const std::vector<SlotRecord>& slots) {
  if (feed.slot < 0 || feed.slot >= static_cast<StateSlot>(slots.size()))
    return "state slot " + str(feed.slot) + " of " + str(static_cast<std::int64_t>(slots.size()));
  const SlotRecord& slot = slots[static_cast<std::size_t>(feed.slot)];
  if (slot.in_step) return "state slot " + str(feed.slot) + " is fed twice in one step";
  if (slot.status == SlotRecord::Status::empty) return "state slot " + str(feed.slot) + " was never reset";
  if (slot.status == SlotRecord::Status::broken)
    return "state slot " + str(feed.slot) + " was broken by an earlier step and not reset since";
  if (feed.first != slot.fed)
    return "feeds from position " + str(feed.first) + " but " + str(slot.fed) + " positions were fed";
  return std::nullopt;
}

Problem check_positions(const Feed& feed, const SlotRecord& slot, const ServePlan& limits) {
  const auto rows = static_cast<std::int64_t>(feed.known.size());
  if (rows == 0) return "no tokens to feed";
  if (feed.form == Form::prefill && feed.first % kernels::kGdnChunk != 0)
    return "prefill from position " + str(feed.first) + ", which is not on the grid of " +
           str(kernels::kGdnChunk);
  if (feed.first + rows > limits.max_seq_len)
    return "position " + str(feed.first + rows - 1) + " is past --max-seq-len " + str(limits.max_seq_len);
  if (limits.qsa_tokens > 0 && feed.first + rows > limits.qsa_tokens)
    return "position " + str(feed.first + rows - 1) + " is past --qsa-max-tokens " + str(limits.qsa_tokens);
  const auto pages = static_cast<std::int64_t>(slot.pages.size() + feed.new_pages.size());
  if (pages > limits.pages_per_sequence)
    return str(pages) + " pages are more than the " + str(limits.pages_per_sequence) +
           " of a sequence of --max-seq-len " + str(limits.max_seq_len);
  if (pages * limits.block_size < feed.first + rows)
    return str(pages) + " pages of " + str(limits.block_size) + " do not hold " + str(feed.first + rows) +
           " positions";
  for (const PageId page : feed.new_pages)
    if (page < 0 || page >= limits.num_pages)
      return "page " + str(page) + " of " + str(limits.num_pages) + " (--kv-cache-tokens)";
  for (const TokenId token : feed.known)
    if (token < 0 || token >= limits.vocab_size)
      return "token id " + str(token) + " is not in the vocabulary of " + str(limits.vocab_size);
  return std::nullopt;
}

Problem check_sampling(const Feed& feed, const ServePlan& limits) {
  const RowRange& rows = feed.logits;
  if (rows.count == 0) return std::nullopt;
  if (rows.first < 0 || rows.count < 0 || std::int64_t{rows.first} + rows.count > std::ssize(feed.known))
    return "logits of rows " + str(rows.first) + " + " + str(rows.count) + " of " +
           str(std::ssize(feed.known));
  if (!feed.sampling) return "logits are asked for without sampling parameters";
  const SamplingParams& sampling = *feed.sampling;
  if (sampling.num_logprobs < -1 || sampling.num_logprobs > kernels::kMaxTopLogprobs)
    return str(sampling.num_logprobs) + " logprobs; " + str(kernels::kMaxTopLogprobs) + " are possible";
  if (feed.prompt_tokens < 0 || feed.prompt_tokens > limits.max_seq_len)
    return "a prompt of " + str(feed.prompt_tokens) + " tokens; --max-seq-len is " + str(limits.max_seq_len);
  if (std::ssize(sampling.logit_bias) > kMaxBiases)
    return str(std::ssize(sampling.logit_bias)) + " logit biases; " + str(kMaxBiases) + " fit";
  if (std::ssize(feed.bans) > kMaxBans)
    return str(std::ssize(feed.bans)) + " bans; " + str(kMaxBans) + " fit";
  const auto known = [&](TokenId token) { return token >= 0 && token < limits.vocab_size; };
  for (const auto& [token, bias] : sampling.logit_bias)
    if (!known(token)) return "logit_bias token id " + str(token) + " is not in the vocabulary";
  for (const TokenId token : feed.bans)
    if (!known(token)) return "banned token id " + str(token) + " is not in the vocabulary";
  if (std::ssize(feed.given) > rows.count)
    return str(std::ssize(feed.given)) + " given tokens for " + str(rows.count) + " logits rows";
  for (const TokenId token : feed.given)
    if (!known(token)) return "given token id " + str(token) + " is not in the vocabulary";
  // The rows of one call are sampled at once, and each writes its token where the next one would count it.
  // Given tokens are known ones: they are where they belong already.
  const bool penalised = sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F ||
                         sampling.repetition_penalty != 1.0F;
  if (rows.count - std::ssize(feed.given) > 1 && penalised)
    return "penalties over several rows of one feed cannot be executed";
  return std::nullopt;
}

Problem check_capacity(const Feed& feed, const StepTotals& totals, const ServePlan& limits) {
  const StepLimits capacity = step_limits(limits);
  const auto rows = static_cast<std::int32_t>(feed.known.size());
  const std::int32_t prefill = totals.prefill_rows + (feed.form == Form::prefill ? rows : 0);
  const std::int32_t decode = totals.decode_rows + (feed.form == Form::decode ? rows : 0);
  if (prefill > capacity.prefill_rows)
    return str(prefill) + " prefill rows in a step of " + str(capacity.prefill_rows) +
           " (--max-prefill-tokens)";
  if (first_decode_row(prefill) + decode > capacity.rows)
    return str(prefill) + " prefill and " + str(decode) + " decode rows in a step of " + str(capacity.rows) +
           " (--max-prefill-tokens, --max-batch-size)";
  if (limits.ple_tokens > 0 && prefill + decode > limits.ple_tokens)
    return str(prefill + decode) + " rows in a step of --ple-max-tokens " + str(limits.ple_tokens);
  if (totals.logits_rows + feed.logits.count > capacity.logits_rows)
    return str(totals.logits_rows + feed.logits.count) + " logits rows in a step of " +
           str(capacity.logits_rows) + " (--max-batch-size)";
  return std::nullopt;
}

}  // namespace

std::optional<StepError> check_feed(const Feed& feed, const StepPlan& plan,
                                    const std::vector<SlotRecord>& slots, const StepTotals& totals,
                                    const ServePlan& limits) {
  Problem problem = not_executable(feed, plan);
  if (!problem) problem = check_slot(feed, slots);
  if (!problem) problem = check_positions(feed, slots[static_cast<std::size_t>(feed.slot)], limits);
  if (!problem) problem = check_sampling(feed, limits);
  if (!problem) problem = check_capacity(feed, totals, limits);
  if (!problem) return std::nullopt;
  return StepError{"step " + std::to_string(plan.number) + ", sequence " + std::to_string(feed.id) + ": " +
                   *problem};
}

}  // namespace model
