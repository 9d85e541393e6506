"""Whole ways: ``up``, ``demo`` and the cells of a ``matrix`` walk through the verbs and keep each result."""
