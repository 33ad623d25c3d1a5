#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine.h"

namespace http {

/// Stands for everything behind http/: remembers what it was given and lets a test play the request actor.
class FakeEngine final : public actors::Engine {
 public:
  Ticket submit(std::shared_ptr<const actors::GenerateRequest> request,
                std::unique_ptr<actors::ResponseSink> sink) override {
    const std::lock_guard lock(mutex_);
    const Ticket ticket = ++last_;
    requests_[ticket] = std::move(request);
    sinks_[ticket] = std::move(sink);
    changed_.notify_all();
    return ticket;
  }
  void client_gone(Ticket ticket) override { note("gone", ticket); }
  void pause(Ticket ticket) override { note("pause", ticket); }
  void resume(Ticket ticket) override { note("resume", ticket); }
  void encode(std::shared_ptr<const actors::Prompt> prompt, std::shared_ptr<const std::atomic<bool>>,
              std::function<void(model::Result<Encoded, model::RequestError>)> done) override {
    if (const auto* text = std::get_if<actors::TextPrompt>(prompt.get())) {
      done(Encoded{text->text, std::vector<model::TokenId>(text->text.begin(), text->text.end())});
    } else if (const auto* chat = std::get_if<actors::ChatPrompt>(prompt.get())) {
      done(Encoded{chat->messages_json, {1, 2, 3}});
    }
  }

  /// The sink of the n-th request, once it was submitted; null after 5 s.
  actors::ResponseSink* sink(Ticket ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(5), [&] { return sinks_.contains(ticket); });
    const auto found = sinks_.find(ticket);
    return found == sinks_.end() ? nullptr : found->second.get();
  }
  std::shared_ptr<const actors::GenerateRequest> request(Ticket ticket) {
    if (sink(ticket) == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    return requests_[ticket];
  }
  void drop(Ticket ticket) {
    std::unique_ptr<actors::ResponseSink> sink;
    const std::lock_guard lock(mutex_);
    sink = std::move(sinks_[ticket]);
  }
  /// Whether `what` was said of the ticket, within 5 s.
  bool heard(const std::string& what, Ticket ticket) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return notes_[{what, ticket}] > 0; });
  }
  bool already_heard(const std::string& what, Ticket ticket) {
    const std::lock_guard lock(mutex_);
    return notes_[{what, ticket}] > 0;
  }

 private:
  void note(const char* what, Ticket ticket) {
    const std::lock_guard lock(mutex_);
    ++notes_[{what, ticket}];
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Ticket last_ = 0;
  std::map<Ticket, std::shared_ptr<const actors::GenerateRequest>> requests_;
  std::map<Ticket, std::unique_ptr<actors::ResponseSink>> sinks_;
  std::map<std::pair<std::string, Ticket>, int> notes_;
};

/// A model with a vocabulary of 1000 and no tokenizer unless one is given.
inline std::shared_ptr<actors::ServedModel> fake_model() {
  auto served = std::make_shared<actors::ServedModel>();
  served->names = {"mini", "alias"};
  served->created = 1700000000;
  served->config.vocab_size = 1000;
  served->plan.max_seq_len = 512;
  served->plan.vocab_size = 1000;
  return served;
}

}  // namespace http
