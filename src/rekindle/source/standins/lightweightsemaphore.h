// Stand-in: the header of this system. Written by rekindle.
#include <concurrentqueue/lightweightsemaphore.h>
