"""The whole way: ``demo`` and ``up`` walk through the stages and keep each result, so that they can continue."""
