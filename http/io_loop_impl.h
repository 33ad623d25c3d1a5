#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <thread>

#include "http/io_loop.h"
#include "http/io_loop_worker.h"
#include "http/wake_list.h"

namespace http {

struct IoLoop::Impl {
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
  boost::asio::signal_set signals{context};
  WakeList wakes{context};
  std::thread thread;
  Worker worker;
};

}  // namespace http
