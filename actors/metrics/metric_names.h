#pragma once

namespace actors::metric_names {

// Names that dashboards and routers know.
inline constexpr char kRequestsRunning[] = "vllm:num_requests_running";
inline constexpr char kRequestsWaiting[] = "vllm:num_requests_waiting";
inline constexpr char kKvCacheUsage[] = "vllm:kv_cache_usage_perc";
inline constexpr char kTimeToFirstToken[] = "vllm:time_to_first_token_seconds";
inline constexpr char kInterToken[] = "vllm:inter_token_latency_seconds";
inline constexpr char kRequestLatency[] = "vllm:e2e_request_latency_seconds";
inline constexpr char kPromptTokens[] = "vllm:prompt_tokens_total";
inline constexpr char kGenerationTokens[] = "vllm:generation_tokens_total";
inline constexpr char kRequestSuccess[] = "vllm:request_success_total";

// Our own.
inline constexpr char kStepSeconds[] = "atlas_step_seconds";
inline constexpr char kStepOverhead[] = "atlas_step_overhead_seconds";
inline constexpr char kHealthState[] = "atlas_health_state";
inline constexpr char kFaults[] = "atlas_faults_total";
inline constexpr char kGemmFallbacks[] = "atlas_gemm_fallback_total";
inline constexpr char kPleRows[] = "atlas_ple_rows_total";
inline constexpr char kPlePinned[] = "atlas_ple_pinned";
inline constexpr char kRollbacks[] = "atlas_rollbacks_total";
inline constexpr char kWatchdogHits[] = "atlas_watchdog_hits_total";
inline constexpr char kBackendInfo[] = "atlas_backend_info";

}  // namespace actors::metric_names
