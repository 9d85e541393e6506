"""Pythons below all stages: finding one and what it is, making an environment of it, installing into that."""
