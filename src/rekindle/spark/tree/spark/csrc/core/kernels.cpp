// Compiled once per capability; see cmake/Codegen.cmake. Everything lives in a namespace of that name, so that
// the linker can never take one copy's code for another's.
#include "core/spark.h"

namespace spark {
namespace SPARK_CAPABILITY {

namespace {

void axpy_kernel(float a, const float* x, const float* y, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = a * x[i] + y[i];
  }
}

double dot_kernel(const float* x, const float* y, std::size_t n) {
  double lanes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      lanes[lane] += static_cast<double>(x[i + lane]) * y[i + lane];
    }
  }
  double sum = 0;
  for (; i < n; ++i) {
    sum += static_cast<double>(x[i]) * y[i];
  }
  for (int lane = 0; lane < 8; ++lane) {
    sum += lanes[lane];
  }
  return sum;
}

}  // namespace

extern const Kernels table;
const Kernels table = {SPARK_CAPABILITY_NAME, &axpy_kernel, &dot_kernel};

}  // namespace SPARK_CAPABILITY
}  // namespace spark
