"""Finished documents to text or HTML. Only here is rich imported."""
