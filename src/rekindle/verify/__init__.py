"""Proof that a torch works: checks against references, in the target's own Python, also on an emulated CPU."""
