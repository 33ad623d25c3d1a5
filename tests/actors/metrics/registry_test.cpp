#include "actors/metrics/registry.h"

#include <gtest/gtest.h>

namespace actors {
namespace {

bool has(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

TEST(Metrics, EverySeriesExistsFromTheStart) {
  const auto text = Metrics("m").text();
  for (const char* line : {
           R"(vllm:num_requests_running{model_name="m"} 0)",
           R"(vllm:num_requests_waiting{model_name="m"} 0)",
           R"(vllm:kv_cache_usage_perc{model_name="m"} 0)",
           R"(vllm:prompt_tokens_total{model_name="m"} 0)",
           R"(vllm:generation_tokens_total{model_name="m"} 0)",
           R"(vllm:time_to_first_token_seconds_count{model_name="m"} 0)",
           R"(vllm:inter_token_latency_seconds_count{model_name="m"} 0)",
           R"(vllm:e2e_request_latency_seconds_count{model_name="m"} 0)",
           R"(atlas_step_seconds_count{kind="decode",model_name="m"} 0)",
           R"(atlas_step_overhead_seconds_count{model_name="m"} 0)",
           R"(atlas_health_state{model_name="m"} 0)",
           R"(atlas_faults_total{kind="step_error",model_name="m"} 0)",
           R"(atlas_ple_rows_total{model_name="m",result="hit"} 0)",
           R"(atlas_ple_rows_total{model_name="m",result="miss"} 0)",
           R"(atlas_ple_pinned{model_name="m"} 0)",
           R"(atlas_watchdog_hits_total{guard="repetition",model_name="m"} 0)",
           R"(# TYPE vllm:num_requests_running gauge)",
       }) {
    EXPECT_TRUE(has(text, line)) << line << "\n" << text;
  }
  for (const char* reason : {"stop", "length", "tool_calls", "timeout", "error", "abort"}) {
    EXPECT_TRUE(has(text, std::string("vllm:request_success_total{finished_reason=\"") + reason +
                              "\",model_name=\"m\"} 0"));
  }
}

TEST(Metrics, CountWhatBecomesOfLoopsByOutcome) {
  const std::pair<std::optional<DeclineReason>, const char*> outcomes[] = {
      {std::nullopt, "done"},
      {DeclineReason::Disabled, "disabled"},
      {DeclineReason::CapReached, "cap_reached"},
      {DeclineReason::NoBoundary, "no_boundary"},
      {DeclineReason::NoSnapshot, "no_snapshot"},
      {DeclineReason::NoAuxSnapshot, "no_aux_snapshot"},
      {DeclineReason::AlreadySent, "already_sent"}};
  for (const auto& [declined, name] : outcomes) {
    Metrics metrics("m");
    const std::string series =
        "atlas_rollbacks_total{model_name=\"m\",outcome=\"" + std::string(name) + "\"} ";
    EXPECT_TRUE(has(metrics.text(), series + "0")) << name;
    metrics.count_watchdog_hit();
    metrics.count_rollback(declined);
    EXPECT_TRUE(has(metrics.text(), series + "1")) << name;
    EXPECT_TRUE(has(metrics.text(), R"(atlas_watchdog_hits_total{guard="repetition",model_name="m"} 1)"));
  }
}

TEST(Metrics, TellWhereTheModelRuns) {
  const auto text = Metrics("m", {"cuda", "H", "9.0", "driver 13"}).text();
  EXPECT_TRUE(has(text,
                  "atlas_backend_info{backend=\"cuda\",compute_capability=\"9.0\",device=\"H\","
                  "libraries=\"driver 13\",model_name=\"m\"} 1"))
      << text;
}

TEST(Metrics, CountWhatHappened) {
  Metrics metrics("m");
  metrics.set_load(3, 2, 0.5);
  metrics.count_end(model::FinishReason::cancelled);
  metrics.observe_inter_token(0.2, 2);
  metrics.observe_step({0.01, 5, 0, {}});
  metrics.observe_step({0.01, 5, 1, {}});
  metrics.observe_step({0.01, 0, 1, {{"24x40_bf16", 3}}, 30, 2, 0.0, 31});
  const auto text = metrics.text();
  EXPECT_TRUE(has(text, R"(vllm:num_requests_running{model_name="m"} 3)"));
  EXPECT_TRUE(has(text, R"(vllm:kv_cache_usage_perc{model_name="m"} 0.5)"));
  EXPECT_TRUE(has(text, R"(vllm:request_success_total{finished_reason="abort",model_name="m"} 1)"));
  EXPECT_TRUE(has(text, R"(atlas_ple_rows_total{model_name="m",result="hit"} 30)"));
  EXPECT_TRUE(has(text, R"(atlas_ple_rows_total{model_name="m",result="miss"} 2)"));
  EXPECT_TRUE(has(text, R"(atlas_ple_pinned{model_name="m"} 31)"));
  EXPECT_TRUE(has(text, R"(vllm:inter_token_latency_seconds_count{model_name="m"} 2)"));
  EXPECT_TRUE(has(text, R"(atlas_step_seconds_count{kind="prefill",model_name="m"} 1)"));
  EXPECT_TRUE(has(text, R"(atlas_step_seconds_count{kind="mixed",model_name="m"} 1)"));
  EXPECT_TRUE(has(text, R"(atlas_gemm_fallback_total{model_name="m",shape="24x40_bf16"} 3)"));
}

}  // namespace
}  // namespace actors
