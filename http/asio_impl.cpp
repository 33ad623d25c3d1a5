// The one source that compiles Asio and Beast; all others see declarations only
// (BOOST_ASIO_/BEAST_SEPARATE_COMPILATION).
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
