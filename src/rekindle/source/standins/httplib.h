// In place of cpp-httplib, which this tree does not have. Written by rekindle.
// What torch's worker server calls, and nothing more: a server that cannot be bound to an address.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <sys/socket.h>

namespace httplib {

struct Request {
  std::string body;
  std::multimap<std::string, std::string> params;
  std::unordered_map<std::string, std::string> path_params;
};

struct Response {
  int status = 200;
  std::string body;
  void set_content(const std::string& content, const std::string&) { body = content; }
};

class Server {
 public:
  using Handler = std::function<void(const Request&, Response&)>;
  Server& Get(const std::string&, Handler) { return *this; }
  Server& Post(const std::string&, Handler) { return *this; }
  void set_keep_alive_timeout(int) {}
  void set_keep_alive_max_count(std::size_t) {}
  void set_address_family(int) {}
  bool bind_to_port(const std::string&, int) { return false; }
  int bind_to_any_port(const std::string&) { return -1; }
  bool listen_after_bind() { return false; }
  bool is_running() const { return false; }
  void stop() {}
};

} // namespace httplib
