"""Runs checks inside the target's Python and tells about each on standard output, one JSON object a line.

Where there is ``fork``, three generations keep a crash from taking anything along: this process only watches; its child
imports the package once; each check runs in a child of that child, and takes only itself down. Elsewhere (Windows) they
run one after another in this process; whoever started it starts it again after a crash, with the list of what is done.
"""

import importlib.util
import json
import os
import platform
import re
import signal
import sys
import time
from fnmatch import fnmatch
from functools import partial

HERE = os.path.dirname(os.path.abspath(__file__))
# The first entry is this directory: its file names must not hide the packages under test.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != HERE]


# This directory as the package rekindle_checks, without putting it on sys.path.
_spec = importlib.util.spec_from_file_location(
    "rekindle_checks", os.path.join(HERE, "framework.py"), submodule_search_locations=[HERE]
)
framework = importlib.util.module_from_spec(_spec)
sys.modules["rekindle_checks"] = sys.modules["rekindle_checks.framework"] = framework
_spec.loader.exec_module(framework)
for _name in sorted(os.listdir(HERE)):
    if _name.startswith("check_") and _name.endswith(".py"):
        importlib.import_module("rekindle_checks." + _name[:-3])
from rekindle_checks.child import Child, die_with_parent  # noqa: E402

FORK = hasattr(os, "fork")
AFTER_IMPORT = ("cpu", "gpu", "gpus", "asked")
HUNG = "it hangs, or the machine is too busy: again alone (--only ID), and with --env OMP_NUM_THREADS=1"


def _execute(check, bench):
    """One check to its end in this process, as the fields of its result."""
    started, burnt = time.time(), time.process_time()
    try:
        result = {"status": "passed", "detail": framework.perform(check, bench) or ""}
    except framework.Skip as skip:
        result = {"status": "skipped", "detail": str(skip), "skip": skip.kind}
    except framework.Failed as failed:
        result = {"status": "failed", "detail": str(failed), "remedy": failed.remedy}
    except MemoryError:
        result = {"status": "failed", "detail": "out of memory"}
    except Exception as error:  # whatever a strange torch throws is this check's failure, not ours
        detail = bench.where() + "%s: %s" % (type(error).__name__, _first_line(error))
        known = (remedy for pattern, remedy in framework.REMEDIES if re.search(pattern, str(error).lower()))
        result = {"status": "failed", "detail": detail, "remedy": next(known, None)}
    if result["status"] == "failed":
        result["remedy"] = result.get("remedy") or check.remedy or None
    if bench.worst is not None:
        result["worst"] = bench.worst
    return dict(result, seconds=time.time() - started, cpu_seconds=time.process_time() - burnt)


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return framework.brief(lines[0], 400) if lines else "no message"


def _run_in_child(check, request, device, deadline):
    """One check in a process of its own."""
    # Asked to end, take the check and whatever it started along; the question waits until both are known.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    child = Child(lambda tell: tell(dict(_execute(check, framework.Bench(request, tell, device)), event="end")))
    signal.signal(signal.SIGTERM, lambda *_: (child.kill(), os._exit(143)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    started, step, late = time.time(), "", False
    for event in child.lines(deadline):
        late = event is None
        if not late and event["event"] == "end":
            child.kill()  # workers that it may have left behind go with it
            child.end()
            return event
        step = step if late else event["name"]
    crash = child.end()
    seconds = time.time() - started
    base = {"status": "failed", "seconds": seconds, "remedy": check.remedy or None}
    if late:
        # What helps against wrong numbers does not help here.
        base.update(detail="no answer within %.0f s" % seconds, remedy=HUNG)
    elif crash and "signal" in crash:
        base.update(detail="died of %s" % crash["name"], crash=crash)
    else:
        base["detail"] = "ended with exit code %s without a word" % (crash or {}).get("exit", 0)
    if step:
        base["detail"] += " in step " + step
    return base


def _import_package(bench):
    module = __import__(bench.request["package"])
    return "%s from %s" % (getattr(module, "__version__", "?"), os.path.dirname(getattr(module, "__file__", "?")))


def _describe_package(package):
    """What the report says about the package, besides its checks."""
    module = sys.modules[package]
    version = getattr(module, "version", None)
    facts = {package: getattr(module, "__version__", "?")}
    facts.update((name, getattr(version, name, None)) for name in ("cuda", "hip"))
    if package == "torch" and framework.is_xpu(module):
        facts["xpu"] = getattr(version, "xpu", None) or "yes"
    return {name: str(value) for name, value in facts.items() if value}


def _probe_devices(request):
    """How many GPUs the package sees, asked in a child: CUDA must not start in the process that forks."""
    if request["package"] != "torch":
        return []
    if not FORK:
        return _list_devices()
    devices = []
    child = Child(lambda tell: tell(_list_devices()))
    for answer in child.lines(time.time() + 120 * request.get("patience", 1)):
        devices = answer or devices
    child.end()
    return devices


def _list_devices():
    import torch

    driver = framework.accelerator(torch)[1]
    cards = []
    for card in map(driver.get_device_properties, range(driver.device_count() if driver.is_available() else 0)):
        if framework.is_xpu(torch):
            arch = "driver " + str(getattr(card, "driver_version", "?"))
        elif framework.is_rocm(torch):
            arch = getattr(card, "gcnArchName", "?").split(":")[0]
        else:
            arch = "sm_%d%d" % (card.major, card.minor)
        cards.append({"name": "%s, %s, %.1f GiB" % (card.name, arch, card.total_memory / 2.0 ** 30)})
    return cards


def _is_wanted(check, request):
    if check.package not in (request["package"], "any") or (check.level == "full" and request["level"] == "smoke"):
        return False
    # The C functions answer early where an import takes minutes; elsewhere the import itself is as quick.
    early = check.scope in ("preload", "bare") and request["package"] == "torch"
    return not early or bool(request.get("cpu") or request.get("only")) or request["level"] == "full"


def _is_chosen(id, request):
    if id in request.get("done", ()):
        return False
    only = request.get("only") or ()
    # A gate opens the way for all the others, so it cannot be left out.
    named = any(fnmatch(id, pattern) or id.startswith(pattern + ".") for pattern in only)
    return named or not only or id.startswith("cpu.")


def _jobs_for(scope, request, gpus):
    """(id, check, device) of one scope, in order."""
    devices = range(len(gpus)) if scope == "gpu" else [None] if gpus or scope != "gpus" else []
    for check in framework.CHECKS:
        for device in devices if check.scope == scope and _is_wanted(check, request) else ():
            id = check.id if device is None else check.id.replace("gpu.", "gpu%d." % device, 1)
            if _is_chosen(id, request):
                yield id, check, device


def _register_asked(request):
    """Checks of this run alone: operators suspected of crashing on this CPU, then an operation of each companion."""
    of_this_run = {"package": request["package"], "level": "smoke", "scope": "asked"}
    for row in request.get("operators") or ():
        framework.check("operator." + row["id"], **of_this_run)(partial(_try_operator, row["call"]))
    for row in request.get("companions") or ():
        work = partial(_try_companion, row)
        framework.check("with." + row["name"], timeout=300, remedy=row["remedy"], **of_this_run)(work)


def _try_companion(row, bench, package):
    bench.untried_where(importlib.util.find_spec(row["module"]) is None, "%s is not installed" % row["name"])
    bench.step("import")
    companion = importlib.import_module(row["module"])
    word, driver = framework.accelerator(bench.torch())
    device = word if driver.is_available() else "cpu"
    version = getattr(companion, "__version__", "")
    lacking = "%s %s is imported; its operations need a GPU" % (row["name"], version)
    bench.untried_where(row["gpu"] and device == "cpu", lacking)
    bench.step("operation on %s" % device)
    space = {"torch": bench.torch(), "t": bench, "device": device}
    exec(compile(row["call"], row["name"], "exec"), space)
    did = ", ".join(space.get("did") or ["one operation"])
    return "%s %s: %s on %s" % (row["name"], version, did, device)


def _try_operator(text, bench, package):
    try:
        exec(compile(text, "operator", "exec"), {package.__name__: package, "step": bench.step})
    except (AttributeError, ImportError) as error:
        raise framework.Absent("this build has no such call: %s" % _first_line(error))
    return "runs"


def _carry_out(jobs, request, tell):
    """Run them in turn. False where one ended in such a way that what comes after it would say nothing."""
    patience = request.get("patience", 1)
    for id, check, device in jobs:
        limit = check.timeout * patience
        tell({"event": "begin", "id": id, "timeout": limit, "remedy": check.remedy})
        # Emulated, a library takes 10 to 20 s to load: once, in the process that the checks are forked from.
        inline = check.scope == "import" or (check.scope == "preload" and request.get("cpu"))
        if FORK and not inline:
            result = _run_in_child(check, request, device, time.time() + limit)
        else:
            result = _execute(check, framework.Bench(request, None, device))
        tell(dict(result, event="end", id=id))
        if result["status"] in {"gate": ("failed",), "import": ("failed",), "preload": ("failed", "skipped")}.get(check.scope, ()):
            return False
    return True


def _perform(request, tell):
    """All that was asked for, in order: is the CPU the right one, before the import, the import, CPU, each GPU."""
    if request.get("cpu") and not _carry_out(_jobs_for("gate", request, []), request, tell):
        return
    if _carry_out(_jobs_for("preload", request, []), request, tell):
        _carry_out(_jobs_for("bare", request, []), request, tell)
    name = "import." + request["package"]
    # A selection may leave nothing to do that needs the import, which takes minutes when emulated.
    some = [{}] * 16  # more GPUs than that sit in no machine
    is_left = any(True for scope in AFTER_IMPORT for _ in _jobs_for(scope, request, some))
    if request.get("only") and not is_left and not _is_chosen(name, request):
        return
    if request.get("no_import"):
        tell({"event": "begin", "id": name, "timeout": 1})
        tell({"event": "end", "id": name, "status": "skipped", "skip": "untried", "detail": request["no_import"], "remedy": request.get("no_import_remedy")})
        return
    importing = framework.Check(name, _import_package, request["package"], "smoke", "import", 120, "")
    # The import always happens, but a run that continues after a crash has already told about it.
    say = (lambda event: None) if name in request.get("done", ()) else tell
    if not _carry_out([(name, importing, None)], request, say):
        return
    gpus = _probe_devices(request)
    jobs = [job for scope in AFTER_IMPORT for job in _jobs_for(scope, request, gpus)]
    tell({"event": "plan", "checks": len(jobs), "gpus": gpus, "about": _describe_package(request["package"])})
    _carry_out(jobs, request, tell)


def _main():
    # Events go out on the original standard output; checks that print get standard error instead.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**event):
        out.write(json.dumps(event) + "\n")
        out.flush()

    request = json.loads(sys.stdin.read())
    _register_asked(request)
    global FORK
    FORK = FORK and not request.get("inline")
    python = {"python": platform.python_version(), "implementation": platform.python_implementation()}
    say(event="hello", machine=platform.machine(), executable=sys.executable, **python)
    if not FORK:
        _perform(request, lambda event: say(**event))
        say(event="done")
        return
    die_with_parent()
    child = Child(lambda tell: _perform(request, tell), own_group=False)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group: the child ends, and then so do we
    current = None
    for event in child.lines(None):
        if event["event"] in ("begin", "end"):
            current = event if event["event"] == "begin" else None
        say(**event)
    crash = child.end()
    if crash is not None and current is not None:
        detail = "died of %s" % (crash.get("name") or "exit code %s" % crash.get("exit"))
        result = {"status": "failed", "detail": detail, "seconds": 0.0, "remedy": current.get("remedy") or None}
        say(event="end", id=current["id"], crash=crash if "signal" in crash else None, **result)
    say(event="done", clean=crash is None)


if __name__ == "__main__":
    _main()
