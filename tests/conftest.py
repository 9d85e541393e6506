"""Shared fixtures. A missing tool skips a test with its name; nothing else does."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# Started in the background a shell makes us ignore Ctrl-C, and all we start: then nothing that tests it can pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure: no property here is about time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
