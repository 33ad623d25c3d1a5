#include "model/plan/model_location.h"

#include <fstream>

namespace model {
namespace {

namespace fs = std::filesystem;

bool is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

std::string folder_name(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  const fs::path& path = error ? folder : whole;
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

/// <cache>/models--ORG--NAME/snapshots/<revision>, the revision being what refs/main says.
fs::path snapshot_of(const std::string& id, const fs::path& cache) {
  std::string name = "models--";
  for (const char c : id) name += c == '/' ? std::string("--") : std::string(1, c);
  std::ifstream ref(cache / name / "refs" / "main");
  std::string revision;
  ref >> revision;
  return revision.empty() ? fs::path() : cache / name / "snapshots" / revision;
}

bool is_gguf_name(const fs::path& path) { return path.extension() == ".gguf"; }

bool looks_like_id(const std::string& model) {
  const auto slash = model.find('/');
  return slash != std::string::npos && slash > 0 && model.find('/', slash + 1) == std::string::npos &&
         slash + 1 < model.size() && model.find("..") == std::string::npos && model[0] != '.' &&
         model[0] != '~';
}

}  // namespace

Result<ModelLocation, LoadError> locate_model(const std::string& model, const std::string& hub_cache,
                                              const std::vector<fs::path>& embedded) {
  std::error_code ignored;
  if (model.empty()) {
    for (const fs::path& folder : embedded) {
      if (is_model_folder(folder)) return ModelLocation{folder, folder_name(folder)};
    }
    return LoadError{{"the embedded model was not found beside the binary; name a MODEL folder"}};
  }
  if (fs::is_directory(model, ignored)) return ModelLocation{model, folder_name(model)};
  if (is_gguf_name(model)) {
    if (fs::exists(model, ignored)) return ModelLocation{model, fs::path(model).stem().string()};
    return LoadError{{model + ": no such file"}};
  }
  if (fs::exists(model, ignored)) {
    return LoadError{
        {model + ": MODEL has to be a folder with config.json, or a file whose name ends in .gguf"}};
  }
  if (looks_like_id(model) && !hub_cache.empty()) {
    const fs::path snapshot = snapshot_of(model, hub_cache);
    if (!snapshot.empty() && is_model_folder(snapshot)) return ModelLocation{snapshot, model};
    return LoadError{
        {model + ": neither a folder nor in the hub cache " + hub_cache + " (nothing is downloaded)"}};
  }
  return LoadError{{model + ": no such folder"}};
}

}  // namespace model
