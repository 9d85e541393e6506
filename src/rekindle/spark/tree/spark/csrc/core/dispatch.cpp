#include "core/spark.h"
#include "spark_config.h"

#include <cstdlib>
#include <cstring>

#if defined(SPARK_ON_ARM) && defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_SVE
#define HWCAP_SVE (1 << 22)
#endif
#endif
#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace spark {

#if defined(SPARK_ON_ARM)
namespace ASIMD { extern const Kernels table; }
#if defined(SPARK_HAVE_SVE)
namespace SVE { extern const Kernels table; }
#endif
#else
namespace DEFAULT { extern const Kernels table; }
#if defined(SPARK_ON_X86) && defined(USE_DISPATCH)
namespace AVX2 { extern const Kernels table; }
namespace AVX512 { extern const Kernels table; }
#endif
#endif

namespace {

#if defined(SPARK_ON_X86) && defined(USE_DISPATCH)
#if defined(_MSC_VER)
bool has(int leaf7_ebx_bit) {
  int regs[4];
  __cpuidex(regs, 1, 0);
  // OSXSAVE, then does the system save the wide registers?
  if (!(regs[2] & (1 << 27)) || (_xgetbv(0) & 6) != 6) return false;
  if (leaf7_ebx_bit != 5 && (_xgetbv(0) & 0xe6) != 0xe6) return false;
  __cpuidex(regs, 7, 0);
  return (regs[1] >> leaf7_ebx_bit) & 1;
}
bool has_avx2() { return has(5); }
bool has_avx512() { return has(16) && has(17) && has(30) && has(31); }
#else
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif
#endif

const Kernels& choose() {
  const char* wanted = std::getenv("SPARK_CPU_CAPABILITY");
  const Kernels* known[4];
  bool usable[4];
  int count = 0;
#if defined(SPARK_ON_ARM)
#if defined(SPARK_HAVE_SVE)
  known[count] = &SVE::table;
#if defined(__linux__)
  usable[count++] = (getauxval(AT_HWCAP) & HWCAP_SVE) != 0;
#else
  usable[count++] = false;
#endif
#endif
  known[count] = &ASIMD::table;
  usable[count++] = true;
#else
#if defined(SPARK_ON_X86) && defined(USE_DISPATCH)
  known[count] = &AVX512::table;
  usable[count++] = has_avx512();
  known[count] = &AVX2::table;
  usable[count++] = has_avx2();
#endif
  known[count] = &DEFAULT::table;
  usable[count++] = true;
#endif
  // Like ATEN_CPU_CAPABILITY: a forced capability is believed, even where this CPU lacks it.
  for (int i = 0; wanted && i < count; ++i) {
    if (std::strcmp(wanted, known[i]->capability) == 0) return *known[i];
  }
  for (int i = 0; i < count; ++i) {
    if (usable[i]) return *known[i];
  }
  return *known[count - 1];
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

const char* config() {
  return "spark " SPARK_VERSION "\n"
         "  - compiler: " SPARK_COMPILER "\n"
         "  - CXX_FLAGS=" SPARK_CXX_FLAGS "\n"
         "  - CMAKE_BUILD_TYPE=" SPARK_BUILD_TYPE "\n"
         "  - CAPABILITIES=" SPARK_CAPABILITIES "\n"
         "  - BUILD_PYTHON=" SPARK_BUILD_PYTHON "\n"
         "  - USE_CUDA=" SPARK_USE_CUDA "\n";
}

}  // namespace spark
