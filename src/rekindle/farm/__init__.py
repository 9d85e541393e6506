"""One build on many machines: sccache's scheduler and workers, set up, joined, watched and ended."""
