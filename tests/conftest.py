"""Shared fixtures. A missing tool skips a test with its name; nothing else does."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is no failure: no property here is about time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
