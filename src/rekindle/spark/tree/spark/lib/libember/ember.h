#pragma once
// A block of memory that outlives the call that made it.
#if defined(_WIN32)
#define EMBER_API
#else
#define EMBER_API __attribute__((visibility("default")))
#endif
EMBER_API void* ember_allocate(unsigned long bytes);
EMBER_API void ember_release(void* block);
