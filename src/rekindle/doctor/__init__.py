"""Knows the machine: what it is, whether it is ready to use and to build torch, and what fixes it."""
