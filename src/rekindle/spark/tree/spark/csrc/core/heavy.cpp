// Slow and hungry on purpose: thousands of template instantiations, as in PyTorch's largest files.
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#ifndef SPARK_HEAVY_SIZE
#define SPARK_HEAVY_SIZE 450
#endif

namespace spark {
namespace {

template <std::size_t N>
struct Ember {
  static double glow(double x) {
    std::map<int, std::tuple<double, std::integral_constant<std::size_t, N>>> heat;
    heat[static_cast<int>(x)] = std::make_tuple(x, std::integral_constant<std::size_t, N>());
    std::function<double(double)> step = [](double value) { return value + 1.0 / static_cast<double>(N + 1); };
    std::vector<std::pair<double, std::integral_constant<int, static_cast<int>(N)>>> sparks;
    sparks.emplace_back(step(x), std::integral_constant<int, static_cast<int>(N)>());
    return sparks.back().first + std::get<0>(heat.begin()->second);
  }
};

template <std::size_t... N>
double burn(double x, std::index_sequence<N...>) {
  double sum = 0;
  const double parts[] = {Ember<N>::glow(x)...};
  for (double part : parts) sum += part;
  return sum;
}

}  // namespace

double heavy(double x);
double heavy(double x) { return burn(x, std::make_index_sequence<SPARK_HEAVY_SIZE / 10>()); }

}  // namespace spark
