"""Parses, calls, renders."""
