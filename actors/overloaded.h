#pragma once

namespace actors {

/// One lambda per alternative of a variant, no default: a new alternative does not compile until it is
/// handled.
template <class... Ts>
struct overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
overloaded(Ts...) -> overloaded<Ts...>;

}  // namespace actors
