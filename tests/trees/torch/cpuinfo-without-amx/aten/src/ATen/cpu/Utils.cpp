#include <cassert>
#include <ATen/cpu/Utils.h>
#if !defined(__s390x__ ) && !defined(__powerpc__)
#include <cpuinfo.h>
#endif
#if defined(__linux__)
#include <unistd.h>
#endif

bool is_amx_tile_supported() {
  return cpuinfo_initialize() && cpuinfo_has_x86_amx_tile();
}
bool is_amx_fp16_supported() {
  return is_amx_tile_supported() && cpuinfo_has_x86_amx_fp16();
}
