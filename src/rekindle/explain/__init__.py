"""Finds the cause in a log and says what mends it."""
