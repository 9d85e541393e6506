#pragma once
#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define SPARK_API
#else
#define SPARK_API __attribute__((visibility("default")))
#endif

namespace spark {

struct Kernels {
  const char* capability;
  void (*axpy)(float a, const float* x, const float* y, float* out, std::size_t n);
  double (*dot)(const float* x, const float* y, std::size_t n);
};

// The copy of the kernels that suits this CPU; SPARK_CPU_CAPABILITY in the environment overrides.
SPARK_API const Kernels& kernels();

// Deliberately compiled once, with the baseline flags only.
SPARK_API std::uint64_t checksum(const float* x, std::size_t n);

// Applies generated operator `which` (0 .. op_count() - 1) to x.
SPARK_API double apply_op(int which, double x);
SPARK_API int op_count();

SPARK_API const char* config();

}  // namespace spark

extern "C" {
SPARK_API void spark_axpy(float a, const float* x, const float* y, float* out, std::size_t n);
SPARK_API double spark_dot(const float* x, const float* y, std::size_t n);
SPARK_API std::uint64_t spark_checksum(const float* x, std::size_t n);
SPARK_API const char* spark_cpu_capability();
SPARK_API const char* spark_config();
}
