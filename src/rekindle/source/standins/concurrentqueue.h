// Stand-in: the header of this system. Written by rekindle.
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#else
#include <concurrentqueue/moodycamel/concurrentqueue.h>
#endif
