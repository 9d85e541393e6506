"""Finished documents to text or HTML."""
