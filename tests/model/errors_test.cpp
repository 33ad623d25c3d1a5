#include "model/errors.h"

#include <gtest/gtest.h>

#include <tuple>

namespace model {
namespace {

using Kind = RequestError::Kind;

/// The whole table: what a client, and who started the process, see of each error.
TEST(ErrorTable, SaysWhatEachErrorBecomes) {
  const std::tuple<Verdict, int, const char*, const char*> rows[] = {
      {verdict(Kind::invalid), 400, "invalid_request_error", ""},
      {verdict(Kind::too_long), 400, "invalid_request_error", "context_length_exceeded"},
      {verdict(Kind::model_not_found), 404, "invalid_request_error", "model_not_found"},
      {verdict(Kind::unsupported), 501, "invalid_request_error", "not_implemented"},
      {verdict(Kind::overloaded), 429, "rate_limit_exceeded", "rate_limit_exceeded"},
      {verdict(Kind::unavailable), 503, "server_error", "overloaded"},
      {verdict(Kind::internal), 500, "server_error", "engine_error"},
      {verdict(StepError{"x"}), 500, "server_error", "engine_error"},
      {verdict(FatalError{"x"}), 503, "server_error", "gpu_fault"},
      {verdict(EngineError(StepError{"x"})), 500, "server_error", "engine_error"},
      {verdict(EngineError(FatalError{"x"})), 503, "server_error", "gpu_fault"},
  };
  for (const auto& [verdict, status, type, code] : rows) {
    EXPECT_EQ(verdict.http_status, status);
    EXPECT_EQ(verdict.type, type);
    EXPECT_EQ(verdict.code, code);
    EXPECT_EQ(verdict.finish, FinishReason::error);
  }
}

/// There is no error whose finish reason anybody could set: it is a constant of the type.
static_assert(finish_reason(StepError{}) == FinishReason::error);
static_assert(finish_reason(FatalError{}) == FinishReason::error);
static_assert(finish_reason(Kind::invalid) == FinishReason::error);
template <class V>
concept CanSayStop = requires(V v) {
  v.finish = FinishReason::stop;
};
static_assert(!CanSayStop<Verdict>);

TEST(ErrorTable, ADeviceErrorConcernsAStepOrTheProcess) {
  const EngineError refused = from_device(gpu::refused("gemm qkv: row 3"));
  const EngineError lost = from_device(gpu::lost("context"));
  EXPECT_TRUE(std::holds_alternative<StepError>(refused));
  EXPECT_TRUE(std::holds_alternative<FatalError>(lost));
  EXPECT_EQ(what(refused), "gemm qkv: row 3");
  EXPECT_EQ(what(lost), "context");
}

TEST(ErrorTable, ARequestAfterTheLossIsRefusedAsTheLossIs) {
  const RequestError error = refused_by(FatalError{"context"});
  EXPECT_EQ(error.kind, Kind::unavailable);
  EXPECT_EQ(verdict(error.kind).http_status, 503);
  EXPECT_EQ(error.code, "gpu_fault");
  EXPECT_EQ(error.what, "context");
}

TEST(ErrorTable, ExitCodesAreThoseOfTheContract) {
  EXPECT_EQ(kExitDone, 0);
  EXPECT_EQ(kExitStart, 1);
  EXPECT_EQ(kExitUsage, 2);
  EXPECT_EQ(kExitFatal, 70);
  EXPECT_EQ(kExitSignalBase + 15, 143);
}

}  // namespace
}  // namespace model
