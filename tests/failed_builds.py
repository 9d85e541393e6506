"""The account that a failed build carries."""

from __future__ import annotations

import pytest

from rekindle.errors import BuildFailed
from rekindle.model.build import BuildFailure


def failed(error: BuildFailed | pytest.ExceptionInfo[BuildFailed]) -> BuildFailure:
    """``BuildFailed`` lies below the models and carries the account as a plain object."""
    failure = (error if isinstance(error, BuildFailed) else error.value).failure
    assert isinstance(failure, BuildFailure)
    return failure
