"""Shared fixtures. A missing tool skips a test with its name; nothing else does."""
