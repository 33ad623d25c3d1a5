#include "http/openai/messages.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/text/json_escape.h"

namespace http::openai {
namespace {

using model::text::append_json_string;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

constexpr std::array<std::string_view, 6> kEfforts = {"none", "minimal", "low", "medium", "high", "xhigh"};

constexpr std::size_t kMaxTemplateKwargs = 256;

/// The text of a content: a string, or parts of type text joined.
std::string joined_content(Fields& fields, const Json& content, const std::string& path) {
  if (content.is(Json::Kind::string)) return std::string(content.text);
  if (!content.is(Json::Kind::array)) {
    fields.refuse(path, path + " has to be a string or an array of parts, not " +
                            std::string(name_of(content.kind)) + '.');
    return "";
  }
  if (content.items.empty()) fields.refuse(path, path + " has no parts.");
  std::string text;
  for (std::size_t i = 0; i < content.items.size() && fields.ok(); ++i) {
    const std::string place = path + '[' + std::to_string(i) + ']';
    if (!content.items[i].is(Json::Kind::object)) {
      fields.refuse(place,
                    place + " has to be an object, not " + std::string(name_of(content.items[i].kind)) + '.');
      break;
    }
    Fields part(content.items[i], place);
    const auto type = part.string("type");
    if (type && *type != "text") {
      part.refuse(place + ".type", "This model takes parts of type text only.", "unsupported_parameter");
    }
    if (!type) part.refuse(place + ".type", place + ".type is missing.");
    const auto piece = part.string("text");
    if (!piece) part.refuse(place + ".text", place + ".text is missing.");
    if (part.error()) fields.refuse(*part.error());
    if (piece) text += *piece;
  }
  return text;
}

void check_tool_calls(Fields& message, const std::string& path) {
  const Json* calls = message.find("tool_calls", Json::Kind::array);
  if (calls == nullptr) return;
  for (std::size_t i = 0; i < calls->items.size() && message.ok(); ++i) {
    const std::string place = path + ".tool_calls[" + std::to_string(i) + ']';
    const Json& call = calls->items[i];
    if (!call.is(Json::Kind::object)) return message.refuse(place, place + " has to be an object.");
    Fields outer(call, place);
    const Json* function = outer.find("function", Json::Kind::object);
    if (function == nullptr) outer.refuse(place + ".function", place + ".function is missing.");
    if (function != nullptr) {
      Fields inner(*function, place + ".function");
      if (!inner.string("name")) inner.refuse(place + ".function.name", place + ".function.name is missing.");
      const Json* arguments = inner.find("arguments");
      if (arguments != nullptr && !arguments->is(Json::Kind::object)) inner.string("arguments");
      if (inner.error()) outer.refuse(*inner.error());
    }
    if (outer.error()) message.refuse(*outer.error());
  }
}

void append_member(std::string& out, std::string_view name) {
  if (out.back() != '{') out += ',';
  append_json_string(out, name);
  out += ':';
}

void append_message(std::string& out, Fields& fields, const Json& message, const std::string& path) {
  if (!message.is(Json::Kind::object)) {
    return fields.refuse(path,
                         path + " has to be an object, not " + std::string(name_of(message.kind)) + '.');
  }
  Fields inner(message, path);
  const auto role = inner.string("role");
  if (inner.ok() && (!role || std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end())) {
    inner.refuse(path + ".role", path + ".role has to be system, developer, user, assistant or tool.");
  }
  check_tool_calls(inner, path);
  const Json* calls = inner.find("tool_calls");
  const bool may_be_silent = role && *role == "assistant" && calls != nullptr && !calls->items.empty();
  const Json* content = inner.find("content");
  if (content == nullptr && !may_be_silent) inner.refuse(path + ".content", path + ".content is missing.");
  inner.string("name");
  inner.string("tool_call_id");
  inner.string("reasoning_content");
  const std::string text =
      content != nullptr && inner.ok() ? joined_content(inner, *content, path + ".content") : "";
  if (inner.error()) return fields.refuse(*inner.error());

  out += '{';
  append_member(out, "role");
  append_json_string(out, *role == "developer" ? "system" : *role);
  append_member(out, "content");
  append_json_string(out, text);
  for (std::size_t i = 0; i < message.items.size(); ++i) {
    if (message.keys[i] == "role" || message.keys[i] == "content") continue;
    append_member(out, message.keys[i]);
    append_json(out, message.items[i]);
  }
  out += '}';
}

}  // namespace

std::string read_messages(Fields& fields) {
  const Json* messages = fields.find("messages", Json::Kind::array);
  if (messages == nullptr) {
    fields.refuse("messages", "messages is missing.");
    return "";
  }
  if (messages->items.empty()) fields.refuse("messages", "messages is empty.");
  std::string out = "[";
  for (std::size_t i = 0; i < messages->items.size() && fields.ok(); ++i) {
    if (i > 0) out += ',';
    append_message(out, fields, messages->items[i], "messages[" + std::to_string(i) + ']');
  }
  out += ']';
  return out;
}

std::string read_tools(Fields& fields) {
  const Json* tools = fields.find("tools", Json::Kind::array);
  if (tools == nullptr || tools->items.empty()) return "";
  for (std::size_t i = 0; i < tools->items.size() && fields.ok(); ++i) {
    const std::string place = "tools[" + std::to_string(i) + ']';
    if (!tools->items[i].is(Json::Kind::object)) {
      fields.refuse(place, place + " has to be an object.");
      break;
    }
    Fields tool(tools->items[i], place);
    const Json* function = tool.find("function", Json::Kind::object);
    if (function == nullptr) {
      tool.refuse(place + ".function", place + ".function is missing.");
    } else {
      Fields inner(*function, place + ".function");
      if (!inner.string("name")) inner.refuse(place + ".function.name", place + ".function.name is missing.");
      inner.find("parameters", Json::Kind::object);
      if (inner.error()) tool.refuse(*inner.error());
    }
    if (tool.error()) fields.refuse(*tool.error());
  }
  std::string out;
  append_json(out, *tools);
  return out;
}

std::string read_template_kwargs(Fields& fields, const std::string& defaults) {
  const Json* kwargs = fields.find("chat_template_kwargs", Json::Kind::object);
  // Each is a variable of the template's outermost scope, where names are looked for one by one.
  if (kwargs != nullptr && kwargs->items.size() > kMaxTemplateKwargs) {
    fields.refuse("chat_template_kwargs",
                  "chat_template_kwargs takes at most " + std::to_string(kMaxTemplateKwargs) + " names.");
    return "";
  }
  auto thinking = fields.boolean("enable_thinking");
  const auto effort = fields.string("reasoning_effort");
  if (effort && std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end()) {
    fields.refuse("reasoning_effort",
                  "reasoning_effort has to be none, minimal, low, medium, high or xhigh.");
  }
  if (effort == "none" && !thinking) thinking = false;
  if (kwargs == nullptr && !thinking && !effort) return defaults;
  std::string out = "{";
  const auto overruled = [&](std::string_view name) {
    return (thinking && name == "enable_thinking") || (effort && name == "reasoning_effort");
  };
  // The operator's own text was checked at start-up; a name given twice is read as its last.
  if (defaults.size() > 2) out += defaults.substr(1, defaults.size() - 2);
  for (std::size_t i = 0; kwargs != nullptr && i < kwargs->items.size(); ++i) {
    if (overruled(kwargs->keys[i])) continue;
    append_member(out, kwargs->keys[i]);
    append_json(out, kwargs->items[i]);
  }
  if (thinking) {
    append_member(out, "enable_thinking");
    out += *thinking ? "true" : "false";
  }
  if (effort) {
    append_member(out, "reasoning_effort");
    append_json_string(out, *effort);
  }
  out += '}';
  return out;
}

}  // namespace http::openai
