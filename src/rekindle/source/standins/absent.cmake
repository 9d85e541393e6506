# In place of {path}, which this tree does not have. Written by rekindle.
# It is not used by the build that was planned; should CMake come here after all, this is why it stops.
message(FATAL_ERROR "{path} is not in this tree: {reason}")
