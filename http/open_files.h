#pragma once

#include "model/errors.h"

namespace http {

/// Lets the process open as many files as its connections need, and some for everything else. A process out
/// of files accepts nobody, probes included, so more connections than the system allows is a startup error.
model::Result<model::Done, model::LoadError> allow_open_files(int max_connections);

}  // namespace http
