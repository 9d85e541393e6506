"""Reads what a wheel really contains, from its bytes."""
