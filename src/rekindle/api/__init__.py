"""The public library: one function per verb, one file each. Only this room knows all stages; it joins them.

Every function returns a frozen value (:mod:`rekindle.model`) that is JSON on disk (``rekindle.model.document.encode``)
and shows itself in a notebook. What cannot be done because of what was given raises a subclass of
:class:`rekindle.errors.RekindleError` with ``message`` and ``remedy``; an answer that is no (nothing fits, a build or
a check failed) is a value.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rekindle.model.document import Document, show_in_notebooks

if TYPE_CHECKING:
    from rekindle.api.build import build, build_checks, build_script, save_bug_report
    from rekindle.api.bundle import bundle
    from rekindle.api.claims import verify_claims
    from rekindle.api.doctor import doctor
    from rekindle.api.explain import (
        explain,
        explain_command,
        explain_list,
        explain_report,
        explain_rule,
        explain_watch,
        installed_torch,
    )
    from rekindle.api.export import export
    from rekindle.api.facts import facts_check, facts_format, facts_show, facts_sources
    from rekindle.api.graft import graft, graft_apply
    from rekindle.api.guard_torch import guard
    from rekindle.api.guide_pages import guide
    from rekindle.api.index import (
        index_add,
        index_build,
        index_check,
        index_search,
        index_serve,
        index_sync,
        index_yank,
    )
    from rekindle.api.inspect import holds_wheels, inspect, inspect_diff, inspect_machine, inspect_page, inspect_shelf
    from rekindle.api.installers import choose_torch
    from rekindle.api.keepings import clean, holdings
    from rekindle.api.keys import key_list, key_new, key_sign, key_trust, sign_results
    from rekindle.api.matrix import (
        matrix_cancel,
        matrix_cell,
        matrix_plan,
        matrix_publish,
        matrix_run,
        matrix_simulate,
        matrix_slurm,
        matrix_status,
        matrix_watch,
    )
    from rekindle.api.page import index_page
    from rekindle.api.plan import (
        find_machine,
        machine_from_flags,
        machine_profile,
        plan,
        remember_plan,
        this_machine,
        why_not,
        with_hardware,
    )
    from rekindle.api.rebuild import rebuild
    from rekindle.api.source import (
        find_tree,
        rewrite_cmake,
        save_patches,
        source_fetch,
        source_fill,
        source_hipify,
        source_patch,
        source_status,
        source_unpatch,
    )
    from rekindle.api.variant import variant_environment
    from rekindle.api.verify import compare_verifications, verify, verify_page
    from rekindle.model.choice import TorchReady
    from rekindle.model.journey import Journey

    up: Callable[..., Journey]
    demo: Callable[..., Journey]
    bring_torch: Callable[..., TorchReady]

# The file of each function: it is read when its function is first asked for, as most commands need one verb only.
_FILES = {
    "build": "build build_checks build_script save_bug_report",
    "bundle": "bundle",
    "claims": "verify_claims",
    "doctor": "doctor",
    "explain": "explain explain_command explain_list explain_report explain_rule explain_watch installed_torch",
    "export": "export",
    "facts": "facts_check facts_format facts_show facts_sources",
    "graft": "graft graft_apply",
    "guard_torch": "guard",
    "guide_pages": "guide",
    "index": "index_add index_build index_check index_search index_serve index_sync index_yank",
    "inspect": "holds_wheels inspect inspect_diff inspect_machine inspect_page inspect_shelf",
    "installers": "choose_torch",
    "keepings": "clean holdings",
    "keys": "key_list key_new key_sign key_trust sign_results",
    "matrix": "matrix_cancel matrix_cell matrix_plan matrix_publish "
    "matrix_run matrix_simulate matrix_slurm matrix_status matrix_watch",
    "page": "index_page",
    "plan": "find_machine machine_from_flags machine_profile plan remember_plan this_machine why_not with_hardware",
    "rebuild": "rebuild",
    "source": "find_tree rewrite_cmake save_patches source_fetch "
    "source_fill source_hipify source_patch source_status source_unpatch",
    "variant": "variant_environment",
    "verify": "compare_verifications verify verify_page",
}
_HOME = {name: f"rekindle.api.{file}" for file, names in _FILES.items() for name in names.split()}
# Whole journeys are public too, but their room lies above this one: it is known here by its name only.
_HOME |= dict.fromkeys(("bring_torch", "demo", "up"), "rekindle.journey.verbs")

__all__ = [
    "bring_torch",
    "build",
    "build_checks",
    "build_script",
    "bundle",
    "choose_torch",
    "clean",
    "compare_verifications",
    "demo",
    "doctor",
    "explain",
    "explain_command",
    "explain_list",
    "explain_report",
    "explain_rule",
    "explain_watch",
    "export",
    "facts_check",
    "facts_format",
    "facts_show",
    "facts_sources",
    "find_machine",
    "find_tree",
    "graft",
    "graft_apply",
    "guard",
    "guide",
    "holdings",
    "holds_wheels",
    "index_add",
    "index_build",
    "index_check",
    "index_page",
    "index_search",
    "index_serve",
    "index_sync",
    "index_yank",
    "inspect",
    "inspect_diff",
    "inspect_machine",
    "inspect_page",
    "inspect_shelf",
    "installed_torch",
    "key_list",
    "key_new",
    "key_sign",
    "key_trust",
    "machine_from_flags",
    "machine_profile",
    "matrix_cancel",
    "matrix_cell",
    "matrix_plan",
    "matrix_publish",
    "matrix_run",
    "matrix_simulate",
    "matrix_slurm",
    "matrix_status",
    "matrix_watch",
    "plan",
    "rebuild",
    "remember_plan",
    "rewrite_cmake",
    "save_bug_report",
    "save_patches",
    "sign_results",
    "source_fetch",
    "source_fill",
    "source_hipify",
    "source_patch",
    "source_status",
    "source_unpatch",
    "this_machine",
    "up",
    "variant_environment",
    "verify",
    "verify_claims",
    "verify_page",
    "why_not",
    "with_hardware",
]


class _Front(ModuleType):
    """A verb's file has the name of its function: whoever imports the file leaves ``api.build`` the function."""

    def __getattr__(self, name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(_HOME[name]), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOME})


sys.modules[__name__].__class__ = _Front


def _as_html(document: Document) -> str:
    from rekindle.render.html import render_html

    return render_html(document)


show_in_notebooks(_as_html)
