#pragma once

#include <cstdlib>
#include <string>

/// Where fixtures and shipped models lie: in the tree that the tests were built in or, for a test binary that
/// travelled to another machine, where the variables ATLAS_FIXTURES and ATLAS_MODELS say.
namespace tests {

inline std::string folder_or(const char* variable, const char* built_in) {
  const char* const named = std::getenv(variable);
  return named != nullptr && *named != '\0' ? named : built_in;
}
inline std::string fixture_path(const std::string& name) {
  return folder_or("ATLAS_FIXTURES", ATLAS_FIXTURES) + '/' + name;
}
inline std::string model_path(const std::string& name) {
  return folder_or("ATLAS_MODELS", ATLAS_MODELS) + '/' + name;
}

}  // namespace tests
