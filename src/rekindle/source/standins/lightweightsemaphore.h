// Stand-in: the header of this system. Written by rekindle.
#if __has_include(<concurrentqueue/lightweightsemaphore.h>)
#include <concurrentqueue/lightweightsemaphore.h>
#else
#include <concurrentqueue/moodycamel/lightweightsemaphore.h>
#endif
