"""Run by a Python that has torch: has the checks look at it in many worlds, each a statement that changes torch first.

``torch_worlds.py CHECKS`` imports torch once and says its version; each line of standard input is a world, answered by
a line that says of each check how it ended and what it held against what: every comparison with its name, the errors
it allows, and how many numbers of what size the reference has. Worlds and checks run in forks.
"""

import importlib
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import traceback
from functools import partial
from os import fork  # a world may take it away
from typing import Any, Callable  # noqa: UP035 (for any Python that has a torch)


def load_checks(folder: str) -> Any:
    """The checks as their package, as the agent makes it; its framework."""
    spec = importlib.util.spec_from_file_location(
        "rekindle_checks", os.path.join(folder, "framework.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    framework = importlib.util.module_from_spec(spec)
    sys.modules["rekindle_checks"] = sys.modules["rekindle_checks.framework"] = framework
    spec.loader.exec_module(framework)
    for name in sorted(os.listdir(folder)):
        if name.startswith("check_") and name.endswith(".py"):
            importlib.import_module("rekindle_checks." + name[:-3])
    return framework


def listening_bench(framework: Any) -> Any:
    """A bench that notes what is compared, and compares."""

    class Listening(framework.Bench):  # type: ignore[misc]
        def __init__(self, *words: Any) -> None:
            framework.Bench.__init__(self, *words)
            self.rulers: list[str] = []

        def note(self, what: str | None, said: str) -> None:
            self.rulers.append(f"{self.where() if what != self._named else ''}{what or ''}: {said}")

        def close(self, got: Any, want: Any, rtol: float, atol: float, what: str | None = None) -> None:
            held = framework.numbers(want)
            # What plain Python computed is the same on every machine, torch's own to some digits.
            size = f"{sum(map(abs, held)):{'.3g' if hasattr(want, 'dtype') else '.6g'}}"
            self.note(what, f"{rtol:.3g} of it + {atol:.3g}, {len(held)} numbers, {size} together")
            framework.Bench.close(self, got, want, rtol, atol, what)

        def equal(self, got: Any, want: Any, what: str | None = None) -> None:
            self.note(what, framework.brief(want, 60))
            framework.Bench.equal(self, got, want, what)

        def ensure(self, condition: Any, message: Any) -> None:
            self.note(None, re.sub(r"-?\d+(\.\d+)?(e[-+]\d+)?", "#", str(message))[:60])
            framework.Bench.ensure(self, condition, message)

    return Listening


def perform(framework: Any, check: Any, place: dict[str, Any]) -> dict[str, Any]:
    request = {"package": "torch", "level": "full", **place.get("request", {})}
    bench = listening_bench(framework)(request, None, 0 if check.scope == "gpu" else None)
    try:
        ended = {"status": "passed", "detail": framework.perform(check, bench)}
    except framework.Skip as skip:
        ended = {"status": skip.kind, "detail": str(skip)}
    except framework.Failed as failed:
        ended = {"status": "failed", "detail": str(failed)}
    except Exception as error:  # noqa: BLE001 - the agent turns it into a failure, and says so
        ended = {"status": "raised", "detail": f"{type(error).__name__}: {str(error)[:300]}"}
    return dict(ended, rulers=bench.rulers)


def in_fork(work: Callable[[], dict[str, Any]], seconds: int = 100) -> Any:
    with tempfile.TemporaryFile("w+") as file:
        pid = fork()
        if pid == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                signal.alarm(seconds)
                json.dump(work(), file)
                file.flush()
            finally:
                os._exit(0)
        status = os.waitpid(pid, 0)[1]
        file.seek(0)
        return json.loads(file.read() or json.dumps({"status": "died", "detail": str(status), "rulers": []}))


def visit(framework: Any, change: str, wanted: list[str]) -> dict[str, Any]:
    """How each check of a world ended."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)  # one check draws as it likes
    place = {"torch": torch, "F": torch.nn.functional}
    try:
        exec(compile(change, "world", "exec"), place)
    except Exception:  # noqa: BLE001 - told, since it is the world that is wrong
        return {"world": {"status": "broken", "detail": traceback.format_exc(), "rulers": []}}
    own = [check for check in framework.CHECKS if check.package == "torch"]
    checks = [check for check in own if check.id in wanted or check.scope in wanted]
    return {check.id: in_fork(partial(perform, framework, check, place)) for check in checks}


def main() -> None:
    """One world a line: {"change": statements, "checks": ids or scopes}."""
    version = importlib.import_module("torch").__version__  # once, for all forks
    framework = load_checks(sys.argv[1])
    sys.stdout.write(json.dumps(str(version)) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        world = json.loads(line)
        told = in_fork(partial(visit, framework, world["change"], world["checks"]), 300)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
