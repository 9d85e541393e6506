"""The attestations that go with a wheel: a CycloneDX bill of materials and an in-toto provenance statement.

Both are the same for the same inputs: no times, no random numbers. The bill lies inside the wheel where
PEP 770 wants it (``.dist-info/sboms``), the provenance beside it, since it names the wheel's digest.
"""

from __future__ import annotations

import configparser
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle import __version__
from rekindle.formats.cyclonedx import render_bill
from rekindle.formats.gitmodules import read_gitmodules
from rekindle.formats.statement import hide_places, write_statement
from rekindle.host.redact import without_password
from rekindle.model.document import encode
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree


def third_party(root: Path) -> dict[str, str]:
    """What lies in the tree's submodule folders, by name: where it is from, where .gitmodules tells it."""
    try:
        named = read_gitmodules((root / ".gitmodules").read_text(encoding="utf-8", errors="replace"))
    except (OSError, configparser.Error):
        named = {}
    unnamed = {place: "" for place in (root / "third_party").glob("*") if not place.is_symlink()}
    places = unnamed | {root / path: url or "" for path, url in named.items() if ".." not in Path(path).parts}
    return {place.name: url for place, url in places.items() if place.is_dir() and any(place.iterdir())}


def bill_of_materials(tree: SourceTree, version: str, packages: Mapping[str, str], tools: Mapping[str, str]) -> bytes:
    """CycloneDX 1.5: the product, what is compiled into it, and what only built it (scope "excluded")."""
    name = {"spark": "spark-miniature"}.get(tree.project, tree.project)
    inside: list[dict[str, Any]] = []
    for part, url in sorted(third_party(Path(tree.root)).items()):
        origin = {"externalReferences": [{"type": "vcs", "url": url}]} if url else {}
        inside.append({"type": "library", "name": part, "scope": "required", **origin})
    for package, release in sorted(packages.items()):
        purl = f"pkg:pypi/{package.lower()}@{release}"
        inside.append({"type": "library", "name": package, "version": release, "scope": "excluded", "purl": purl})
    for tool, what in sorted(tools.items()):
        inside.append({"type": "application", "name": tool, "version": what, "scope": "excluded"})
    product: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "bom-ref": f"pkg:pypi/{name}@{version}",
    }
    if tree.patched:
        product["pedigree"] = {
            "patches": [
                {"type": "unofficial", "diff": {"text": {"content": f"{patch.id} sha256:{patch.sha256 or 'unknown'}"}}}
                for patch in tree.patched
            ]
        }
    return render_bill(product, inside, tool_version=__version__)


def provenance(
    plan: Plan,
    plan_digest: str,
    tree: SourceTree,
    wheels: Sequence[tuple[str, str]],
    env: Mapping[str, str],
    tools: Mapping[str, str],
    places: Mapping[str, str],
) -> bytes:
    """An in-toto statement with an SLSA 1.0 predicate: from which plan and source, with which settings and tools.

    It is made to be published: ``places`` of this machine stand in it by their names (``<workspace>``) alone.
    """
    origin = without_password(tree.origin or tree.project)
    if Path(origin).is_absolute():
        origin = tree.project
    materials: list[dict[str, Any]] = []
    if tree.commit:
        materials.append({"uri": origin, "digest": {"gitCommit": tree.commit}})
    elif tree.digest:
        materials.append({"uri": origin, "digest": {"sha256": tree.digest}})
    materials += [
        {"uri": f"patch:{patch.id}", "digest": {"sha256": patch.sha256}} for patch in tree.patched if patch.sha256
    ]
    return write_statement(
        wheels,
        kind="rekindle/build/v1",
        asked={"project": tree.project, "version": plan.torch or tree.version},
        # The whole plan: with it and the source anybody can repeat the build (rekindle rebuild).
        settings=hide_places(
            {
                "environment": dict(sorted(env.items())),
                "planDigest": plan_digest,
                "plan": json.loads(encode(plan)),
            },
            {"source": tree.root, **places},
        ),
        materials=materials,
        tools=tools,
    )
