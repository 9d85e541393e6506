# Asked of any Python that may have torch, so old syntax: which packages, what each wheel brought, what torch says
# of itself. Nothing is imported: torch/version.py holds plain assignments.
import hashlib
import importlib.util
import json
import os

try:
    import importlib.metadata as metadata
except ImportError:
    import pkg_resources

    metadata = None


def distributions():
    if metadata is None:
        for one in pkg_resources.working_set:
            text = one.get_metadata("RECORD") if one.has_metadata("RECORD") else ""
            yield one.project_name, one.version, text
        return
    for one in metadata.distributions():
        if one.metadata["Name"]:
            yield one.metadata["Name"], one.version, one.read_text("RECORD") or ""


def about_torch():
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = list(spec.submodule_search_locations)[0]
    values = {}
    try:
        with open(os.path.join(home, "version.py")) as file:
            exec(file.read(), values)
    except Exception:
        values = {}
    found = dict((name, values.get(name)) for name in ("__version__", "cuda", "hip"))
    total = hashlib.sha256()
    for folder, folders, files in os.walk(home):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for one in sorted(files):
            path = os.path.join(folder, one)
            state = os.lstat(path)
            row = "%s %d %d\n" % (os.path.relpath(path, home), state.st_size, state.st_mtime_ns)
            total.update(row.encode("utf-8", "surrogatepass"))
    found["files"] = total.hexdigest()
    return found


answer = {"packages": {}, "records": {}, "torch": about_torch()}
for name, version, record in distributions():
    if name not in answer["packages"]:
        answer["packages"][name] = version
        answer["records"][name] = hashlib.sha256(record.encode("utf-8")).hexdigest()
print(json.dumps(answer, sort_keys=True))
