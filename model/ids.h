#pragma once

#include <cstdint>

namespace model {

using TokenId = std::int32_t;
using Position = std::int32_t;     ///< of a token in its sequence, from 0
using SequenceId = std::uint64_t;  ///< unique for the life of the process
using StepNumber = std::uint64_t;
using StateSlot = std::int32_t;  ///< device state of one sequence
using SnapshotSlot = std::int32_t;
using PageId = std::int32_t;
using LayerIndex = std::int32_t;

/// Raised when ids were dropped (token epoch: rollback) or when plans in flight became void (plan epoch:
/// rollback, preemption, finish). An answer is judged by its number, never by a flag.
using Epoch = std::uint32_t;

}  // namespace model
