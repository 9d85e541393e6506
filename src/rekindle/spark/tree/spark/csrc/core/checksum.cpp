// The one function that is not dispatched: whatever flags this file gets, every CPU must be able to run.
#include "core/spark.h"

#include <cstring>

#if defined(SPARK_UNGUARDED_AVX2) && defined(__AVX2__)
#include <immintrin.h>
#endif

namespace spark {

std::uint64_t checksum(const float* x, std::size_t n) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
#if defined(SPARK_UNGUARDED_AVX2) && defined(__AVX2__)
  __m256i lanes = _mm256_setzero_si256();
  for (; i + 4 <= n; i += 4) {
    __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    lanes = _mm256_add_epi64(lanes, _mm256_cvtepu32_epi64(bits));
  }
  std::uint64_t parts[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts), lanes);
  sum = parts[0] + parts[1] + parts[2] + parts[3];
#endif
  for (; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    sum += bits;
  }
  return sum;
}

}  // namespace spark
