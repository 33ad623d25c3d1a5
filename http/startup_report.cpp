#include "http/startup_report.h"

namespace http {

std::vector<std::string> StartupReport::lines(const actors::HealthView& health) {
  using actors::ProcessState;
  std::vector<std::string> lines;
  if (done_) return lines;
  if (health.state == ProcessState::starting) {
    if (health.stage != stage_ && !health.stage.empty()) lines.push_back(health.stage + " …");
    stage_ = health.stage;
    return lines;
  }
  done_ = true;
  if (health.state != ProcessState::ready) return lines;
  const std::string& name = served_.names.front();
  lines.push_back("ready: " + name + " on " + url_);
  if (served_.chat_template) {
    lines.push_back("try: curl -N " + url_ +
                    R"(/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":")" + name +
                    R"(","messages":[{"role":"user","content":"Hello!"}],"stream":true}')");
  } else {
    lines.push_back("try: curl -N " + url_ +
                    R"(/v1/completions -H 'Content-Type: application/json' -d '{"model":")" + name +
                    R"(","prompt":[1,2,3],"max_tokens":16,"stream":true}')");
  }
  for (std::string& line : describe(served_.plan)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace http
