# Asked of any Python, so old syntax: each package with pip's own notes about it. Nothing is imported.
import json
import os

import importlib.metadata as metadata


def note(one, name):
    text = one.read_text(name)
    return None if text is None else text.strip()


def when(one):
    # pip writes INSTALLER and REQUESTED last; either dates the install.
    for name in ("INSTALLER", "RECORD", "METADATA"):
        try:
            return os.stat(os.path.join(str(one._path), name)).st_mtime
        except (AttributeError, OSError):
            continue
    return 0.0


rows = {}
for one in metadata.distributions():
    name = one.metadata["Name"]
    if not name or name in rows:
        continue
    try:
        url = json.loads(note(one, "direct_url.json") or "{}").get("url")
    except ValueError:
        url = None
    rows[name] = {
        "name": name,
        "version": one.version,
        "asked": note(one, "REQUESTED") is not None,
        "installer": note(one, "INSTALLER") or "",
        "when": when(one),
        "url": url,
        "requires": list(one.requires or []),
    }
print(json.dumps(list(rows.values())))
