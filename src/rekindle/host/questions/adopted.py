# Lies in an application's environment after "rekindle adopt" and is loaded whenever its Python starts, so old syntax and
# never an error: sets the variables that its torch needs, lets uv obey the constraints that pip reads by itself, turns
# cuDNN off for cards it has no code for, and says after a pip that failed why a torch is kept and what can be done.
import json
import os
import sys


def _installs(words):
    names = [os.path.basename(word).lower() for word in words[:3]]
    pip = "pip" in names or any(name.startswith("pip") for name in names[:2]) or "__main__.py" in names
    return pip and "install" in words


def _tell_after_failure(text):
    leave = sys.exit

    def leave_and_tell(code=None):
        if code and sys.stderr is not None:
            sys.stderr.write("rekindle: " + text + "\n")
        leave(code)

    sys.exit = leave_and_tell


def switch_cudnn():
    """Once torch is imported, where the variable says so."""
    if os.environ.get("REKINDLE_CUDNN") != "off":
        return
    import importlib.util

    class Finder(object):
        def find_spec(self, name, path=None, target=None):
            if name != "torch":
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                run = spec.loader.exec_module

                def run_and_switch_off(module):
                    run(module)
                    module.backends.cudnn.enabled = False

                spec.loader.exec_module = run_and_switch_off
            return spec

    sys.meta_path.insert(0, Finder())


try:
    with open(os.path.join(sys.prefix, "rekindle", "adopted.json"), "rb") as file:
        adopted = json.loads(file.read().decode("utf-8"))
    for name, value in adopted["env"].items():
        os.environ.setdefault(name, value)
    switch_cudnn()
    if adopted["why"] and _installs(getattr(sys, "orig_argv", sys.argv)[1:]):
        _tell_after_failure(adopted["why"])
except Exception:
    pass
