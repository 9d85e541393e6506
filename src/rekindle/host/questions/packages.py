# Asked of any Python that may have torch, so old syntax: each package with pip's own notes about it, and what torch says
# of itself. Nothing is imported or run. With the word "files": also one digest over torch's files as they lie there;
# with "digests=NAME,NAME": every file of those packages is read and held against the list its installer left.
import base64
import csv
import hashlib
import importlib.util
import json
import os
import re
import sys
from functools import partial

try:
    import importlib.metadata as metadata
except ImportError:
    import pkg_resources

    metadata = None

TO_READ = [name for word in sys.argv[1:] if word.startswith("digests=") for name in word[len("digests=") :].split(",")]


def _when(dist):
    # pip writes INSTALLER and REQUESTED last; either dates the install.
    for name in ("INSTALLER", "RECORD", "METADATA"):
        try:
            return os.stat(os.path.join(str(dist._path), name)).st_mtime
        except (AttributeError, OSError):
            continue
    return 0.0


def _brought(record):
    """Names and digests of what the wheel itself brought; what installers add differs from one to the next."""
    for line in csv.reader((record or "").splitlines()):
        if len(line) > 1 and line[1].startswith("sha256="):
            own = not line[0].startswith(("..", "/")) and ".dist-info/" not in line[0]
            if own and not line[0].endswith(".pyc"):
                yield line[0], line[1][len("sha256=") :]


def _digest_in_record(path):
    total = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                total.update(piece)
    except OSError:
        return "missing"
    return base64.urlsafe_b64encode(total.digest()).decode("ascii").rstrip("=")


def _contents(record, folder, read_files):
    try:
        listed = sorted(_brought(record))
    except csv.Error:
        listed = []
    current = [(name, _digest_in_record(os.path.join(folder, name))) for name, _ in listed] if read_files else listed
    edited = [name for (name, digest), (_, now) in zip(listed, current) if digest != now]
    lines = "".join("%s %s\n" % row for row in current)
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest() if current else "", edited


def _came_from(text):
    try:
        url = json.loads(text or "{}").get("url")
    except (ValueError, AttributeError, RuntimeError):  # no JSON, no object, nested without end
        return None
    return None if url is None else str(url)


def _row(name, version, folder, read, requires, date):
    record = read("RECORD")
    digest, edited = _contents(record, folder, name.lower() in TO_READ)
    return {
        "name": name,
        "version": version or "",
        "folder": folder,
        "record": hashlib.sha256((record or "").encode("utf-8")).hexdigest(),
        "contents": digest,
        "edited": edited[:1000],
        "asked": read("REQUESTED") is not None,
        "installer": (read("INSTALLER") or "").strip(),
        "when": date,
        "url": _came_from(read("direct_url.json")),
        "requires": requires,
    }


def _read_text(dist, name):
    try:
        return dist.read_text(name)
    except UnicodeError:
        return ""


def _distributions():
    if metadata is None:
        for dist in pkg_resources.working_set:
            read = lambda name: dist.get_metadata(name) if dist.has_metadata(name) else None
            requires = [str(requirement) for requirement in dist.requires()]
            yield _row(dist.project_name, dist.version, dist.location, read, requires, 0.0)
        return
    for dist in metadata.distributions():
        try:
            name, version, requires = dist.metadata["Name"], dist.version, list(dist.requires or [])
        except UnicodeError:  # one package that cannot be read hides no other
            name, _, version = os.path.basename(str(dist._path)).rpartition(".")[0].partition("-")
            requires = []
        if name:
            yield _row(name, version, str(dist.locate_file("")), partial(_read_text, dist), requires, _when(dist))


def _about_torch():
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = list(spec.submodule_search_locations)[0]
    try:
        with open(os.path.join(home, "version.py")) as file:
            text = file.read()
    except (OSError, UnicodeError):
        text = ""
    versions = {}
    for name in ("__version__", "cuda", "hip"):
        match = re.search(r"^%s(?:\s*:[^=\n]+)?\s*=\s*['\"]([^'\"]+)['\"]" % name, text, re.MULTILINE)
        versions[name] = match.group(1) if match else None
    if "files" in sys.argv[1:]:
        versions["files"] = _digest_of(home)
    return versions


def _digest_of(home):
    total = hashlib.sha256()
    for folder, folders, files in os.walk(home):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = os.path.join(folder, name)
            state = os.lstat(path)
            line = "%s %d %d\n" % (os.path.relpath(path, home), state.st_size, state.st_mtime_ns)
            total.update(line.encode("utf-8", "surrogatepass"))
    return total.hexdigest()


rows = {}
for found in _distributions():
    rows.setdefault(found["name"], found)
print(json.dumps({"packages": list(rows.values()), "torch": _about_torch()}, sort_keys=True))
