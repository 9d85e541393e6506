"""Source trees for people: what the tree is, what was changed in it, what is next."""

from rekindle.model.source import CMakeRewrite, SavedPatches, SourceTree
from rekindle.render.screen import Screen, printable, shown_as


def _view_tree(tree: SourceTree, screen: Screen) -> None:
    """``status`` and what every step that changes a tree ends with."""
    text = f"{tree.project} {tree.version} in {tree.root}"
    if count := len(tree.conflicts):
        text += f": {count} patch{'es do' if count > 1 else ' does'} not fit, nothing was changed"
    elif tree.missing_submodules:
        text += f": {len(tree.missing_submodules)} third parties are missing"
    screen.verdict("fail" if count or tree.missing_submodules else "ok", text)
    if tree.repaired:
        screen.bullet(tree.repaired, status="warn")
    screen.facts([("commit", tree.commit), ("from", tree.origin), ("hipified", "yes" if tree.hipified else "")])
    idle = [patch for patch in tree.patches if patch.state == "not-needed" and not screen.verbosity]
    if len(idle) < len(tree.patches):
        screen.section("Patches")
    for patch in (patch for patch in tree.patches if patch not in idle):
        title = f" — {patch.title}" if patch.title else ""
        status, word = shown_as("patch", patch.state)
        screen.line(f"  {screen.mark(status)} {patch.id}: {word}{printable(title)}")
        told = [patch.detail] if screen.verbosity or patch.state in ("conflict", "unknown") else []
        if screen.verbosity and patch.instead and patch.state in ("clean", "applied"):
            told.append(f"instead: {patch.instead}")
        for text in filter(None, (*told, patch.source if screen.verbosity else None)):
            screen.paragraph(text, indent=6)
    if idle:
        screen.line(f"  {screen.style(f'{len(idle)} more not needed here (-v shows why)', 'dim')}")
    screen.bullets(tree.notes)
    _parts(tree, screen)
    if tree.missing_submodules:
        screen.bullets(tree.missing_submodules, status="fail", title="Missing third parties", most=6)
        by_git = f"git -C {tree.root} submodule update --init --recursive"
        fixes = [part.fix for part in tree.parts if not part.ready and part.fix]
        for fix in dict.fromkeys(fixes or [by_git if tree.commit else f"rekindle source fill {tree.root}"]):
            screen.command(fix)
    screen.commands("What was changed", filter(None, [tree.diff_command]))


def view_diff(tree: SourceTree, screen: Screen) -> None:
    """``patch --dry-run``: the states, then the diff, which can be piped into git apply."""
    _view_tree(tree, screen)
    if tree.diff:
        screen.section("The change")
        _diff(tree.diff, screen)


def _view_rewrite(result: CMakeRewrite, screen: Screen) -> None:
    verb, count = "would be raised" if result.dry_run else "raised", len(result.changes)
    where = f"{len({change.file for change in result.changes})} of {result.files_read} CMake files"
    screen.verdict("ok", f"{count} CMake version{'s' * (count != 1)} {verb}, in {where}")
    screen.rows([f"{change.file}:{change.line}", f"{change.before} → {change.after}"] for change in result.changes)
    left = ([f"{call.file}:{call.line}", call.before, call.why or ""] for call in result.left)
    screen.rows(left, title="Left alone", most=8)
    if result.diff and screen.verbosity:
        screen.section("The change")
        _diff(result.diff, screen)


def _view_saved(saved: SavedPatches, screen: Screen) -> None:
    count = len(saved.files)
    screen.verdict("ok" if count else "skip", f"{count} patch file{'s' * (count != 1)} written from {saved.base}..HEAD")
    for file in saved.files:
        screen.command(file)
    screen.bullets(saved.skipped, status="warn")
    if count:
        screen.paragraph("Fill in Applies-To and Origin in each header; docs/patches.md explains them.")


def _parts(tree: SourceTree, screen: Screen) -> None:
    """What each third party is here; one line, and with -v one per part."""
    ready = [part for part in tree.parts if part.ready]
    if not ready or ({part.way for part in ready} == {"submodule"} and not screen.verbosity):
        return
    counts = {way: sum(part.way == way for part in ready) for way in _WAYS}
    screen.section("Third parties: " + ", ".join(f"{count} {_WAYS[way]}" for way, count in counts.items() if count))
    if screen.verbosity:
        screen.rows([part.path, part.way, part.origin or ""] for part in ready)
    else:
        names = ", ".join(part.name for part in ready if part.way == "system")
        screen.paragraph(f"from this system: {names} (-v shows all)")
    for part in ready:
        if part.detail:
            screen.bullet(f"{part.name}: {part.origin}; {part.detail}", status="warn")
            if part.fix:
                screen.command(part.fix)


_WAYS = {
    "submodule": "submodules",
    "system": "from this system",
    "copy": "copied",
    "index": "from the package index",
    "stand-in": "stand-ins",
    "off": "not used",
}


def _diff(diff: str, screen: Screen) -> None:
    for line in diff.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        screen.line(screen.style(printable(line), style) if style else printable(line))
