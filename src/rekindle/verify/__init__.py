"""Proves that a torch works: on this machine, or on an emulated older CPU."""
