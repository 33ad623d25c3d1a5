#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/exchange.h"

namespace http {

using Handler = std::function<void(const std::shared_ptr<const Request>&, const std::shared_ptr<Exchange>&)>;

/// Which of our routes a request is for. Pure.
class Router {
 public:
  /// A path that ends in "/*" stands for everything below it; an exact path goes first.
  void add(std::string method, std::string path, Handler handler);

  struct NotFound {};
  struct WrongMethod {
    std::string allow;  ///< value of the Allow field
  };
  struct Options {
    std::string allow;  ///< OPTIONS of a known path
  };
  using Match = std::variant<const Handler*, NotFound, WrongMethod, Options>;
  /// HEAD is GET (whose body the connection leaves out).
  Match match(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method, path;
    Handler handler;
  };
  std::vector<Route> routes_;
};

}  // namespace http
