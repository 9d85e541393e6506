#include "ember.h"

#include <cstdlib>

void* ember_allocate(unsigned long bytes) { return std::calloc(1, bytes ? bytes : 1); }

void ember_release(void* block) { std::free(block); }
