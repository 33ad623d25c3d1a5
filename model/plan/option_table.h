#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/plan/serve_options.h"

namespace model {

/// One option, said once: flag, variable, key of a config file, help and check all come from here.
struct Option {
  enum class Kind { value, toggle, list };
  std::string name;  ///< "max-seq-len"
  std::string alias;
  Kind kind = Kind::value;
  std::string topic;
  std::string shape;     ///< of the value, for help: "N", "FILE", "on|off"
  std::string standard;  ///< default, for help and --print-config
  std::string help;
  /// Takes the value over, or says what is wrong with it ("has to be …").
  std::function<std::optional<std::string>(ServeOptions&, const std::string&)> set;
  bool secret = false;

  std::vector<std::string> variables() const;  ///< ATLAS_MAX_SEQ_LEN; the alias' after the name's
};

const std::vector<Option>& option_table();
const Option* find_option(std::string_view name);  ///< by name or alias, '_' read as '-'
/// The known name that differs in the fewest letters.
std::string nearest(std::string_view wrong, const std::vector<std::string>& known);

}  // namespace model
