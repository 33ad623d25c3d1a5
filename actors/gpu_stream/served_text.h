#pragma once

#include <string>
#include <vector>

#include "actors/engine.h"
#include "model/checkpoint/loader.h"

namespace actors {

/// What turns text into tokens and back, read from the model's files: tokenizer, chat template
/// (`chat_template` names a file in place of the model's own) and, from a GGUF file, its stop tokens. What is
/// not there stays null; what cannot be read is added to `problems`.
void read_served_text(const model::ModelFolder& folder, const std::string& chat_template, ServedModel& served,
                      std::vector<std::string>& problems);

}  // namespace actors
