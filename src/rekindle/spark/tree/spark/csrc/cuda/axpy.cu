#include <cuda_runtime.h>

#include "spark_config.h"

#include <cstddef>

#if defined(_WIN32)
#define SPARK_API __declspec(dllexport)
#else
#define SPARK_API __attribute__((visibility("default")))
#endif

namespace {

__global__ void axpy_kernel(float a, const float* x, const float* y, float* out, std::size_t n) {
  std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" {

SPARK_API int spark_cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

SPARK_API const char* spark_cuda_arch_list() { return SPARK_CUDA_ARCH_LIST; }

// Returns null on success, else the runtime's own words.
SPARK_API const char* spark_cuda_axpy(float a, const float* x, const float* y, float* out, std::size_t n) {
  float *dx = nullptr, *dy = nullptr, *dout = nullptr;
  const std::size_t bytes = n * sizeof(float);
  cudaError_t error = cudaMalloc(&dx, bytes);
  if (error == cudaSuccess) error = cudaMalloc(&dy, bytes);
  if (error == cudaSuccess) error = cudaMalloc(&dout, bytes);
  if (error == cudaSuccess) error = cudaMemcpy(dx, x, bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = cudaMemcpy(dy, y, bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess && n) {
    axpy_kernel<<<static_cast<unsigned>((n + 255) / 256), 256>>>(a, dx, dy, dout, n);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(out, dout, bytes, cudaMemcpyDeviceToHost);
  cudaFree(dx);
  cudaFree(dy);
  cudaFree(dout);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // extern "C"
