"""Ctrl-C while the processes that fill the page start: they never see it, the one that started them does."""

from __future__ import annotations

import multiprocessing
import signal

import pytest

from rekindle.api.page import _interrupt_held_back, _let_interrupt_through


def _blocked() -> set[int]:
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no signal masks")
def test_an_interrupt_waits_until_all_have_started() -> None:
    with _interrupt_held_back(), multiprocessing.get_context("spawn").Pool(1) as pool:
        # Locks and queues were made by now, for which multiprocessing starts a process that opens the signal again.
        assert signal.SIGINT in _blocked()
        assert signal.SIGINT in pool.apply(signal.pthread_sigmask, (signal.SIG_BLOCK, []))
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            _let_interrupt_through()
    assert signal.SIGINT not in _blocked()
