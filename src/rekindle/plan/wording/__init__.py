"""What was decided, said: one module per part of the finished plan, and :mod:`document`, which composes it.

Nothing here decides; deciding is done in the rooms' other modules (rules, candidates, assess, solve, recipe).
"""
