"""The public library: one function per verb. Only this file knows all stages; it joins them."""

from __future__ import annotations
