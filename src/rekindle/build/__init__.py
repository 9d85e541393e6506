"""Turns a plan and a tree into a wheel, within the memory there is, and continues after anything."""
