// A C face, so that the library can be tried without Python headers.
#include "core/spark.h"

extern "C" {

void spark_axpy(float a, const float* x, const float* y, float* out, std::size_t n) {
  spark::kernels().axpy(a, x, y, out, n);
}

double spark_dot(const float* x, const float* y, std::size_t n) { return spark::kernels().dot(x, y, n); }

std::uint64_t spark_checksum(const float* x, std::size_t n) { return spark::checksum(x, n); }

const char* spark_cpu_capability() { return spark::kernels().capability; }

const char* spark_config() { return spark::config(); }

}  // extern "C"
