"""Finds the torch for a machine and says why; keeps every refusal."""
