#pragma once

#include <cstdint>
#include <string>

#include "bench/step/stream_marks.h"

namespace bench {

/// Opens `streams` connections to 127.0.0.1:port, sends `request` on each and reads them to their ends from
/// one thread. A token is one event with a `content` (or `reasoning_content`) that is not empty. Run in a
/// process of its own: its work is not the server's.
void read_streams(int port, std::int32_t streams, const std::string& request, std::int32_t tokens_each,
                  StreamMarks& marks);

}  // namespace bench
