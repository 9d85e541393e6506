"""Does this wheel run on that machine? One verdict per axis, the worst first, each with its remedy. What the machine
does not tell is *unknown*. The whole runs if no axis says no and at least one axis could be judged."""

import posixpath
from collections.abc import Sequence

from rekindle.compat.backends import find_flavour
from rekindle.compat.libc import Libc, libc_of, libc_runs, tag_libc
from rekindle.compat.processor import code_starts, describe_trials, features_of, missing, suspicions, wheel_starts
from rekindle.facts import load_facts
from rekindle.inspect.verdict_gpu import driver_verdicts, gpu_verdicts, verdict
from rekindle.model.machine import Machine, cpu_arch, platform_of
from rekindle.model.plan import Reason
from rekindle.model.wheel import AxisVerdict, KeptTrials, OperatorTrial, Verdict, WheelCpu, WheelReport

_WORST_FIRST = ("no", "partly", "unknown", "yes")


def verdict_for(report: WheelReport, machine: Machine, name: str, kept: KeptTrials | None = None) -> Verdict:
    """``kept`` is what ``verify`` tried of this build on such a CPU: that counts more than what was read."""
    features = features_of(machine.cpu, load_facts())
    operators = kept.trials if kept is not None else ()
    if kept is None and features is not None and report.cpu.functions is not None and report.name in (None, "torch"):
        operators = tuple(suspicion.trial() for suspicion in suspicions(report.cpu.evidence, features))
    damage = [finding.text for finding in report.findings if finding.severity == "error"]
    axes = [
        *_judge_system(report, machine),
        *_judge_python(report, machine),
        *_judge_cpu(report, machine, operators, kept),
        *gpu_verdicts(report, machine),
        *driver_verdicts(report, machine),
        *_judge_libc(report, machine),
        *_judge_libraries(report),
        *(verdict("integrity", "no", "damaged", text, "download it again") for text in damage[:3]),
    ]
    axes.sort(key=lambda axis: _WORST_FIRST.index(axis.runs))
    runs: bool | None = None
    if any(axis.runs == "no" for axis in axes):
        runs = False
    elif any(axis.runs in ("yes", "partly") and axis.axis in ("gpu", "cpu", "system", "libc") for axis in axes):
        # Facts missing from the machine's description are listed, but do not take the answer away.
        runs = None if any(axis.runs == "unknown" and not axis.code.endswith("-not-told") for axis in axes) else True
    because = tuple(Reason(code=axis.code, text=axis.text) for axis in axes if axis.runs != "yes" or runs)
    return Verdict(machine=name, runs=runs, because=because, axes=tuple(axes), operators=operators)


def _judge_system(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    tags = [tag for text in report.tags for tag in text.rpartition("-")[2].split(".")]
    pairs = [platform_of(tag) for tag in tags]
    platforms = {(system or "linux", processor) for system, processor in pairs if processor in ("x86_64", "aarch64")}
    arch = cpu_arch(machine.os.arch or "")
    if not platforms:
        wrong = report.cpu.arch and arch and report.cpu.arch != arch
        text = f"built for {report.cpu.arch}; the machine is {arch}"
        return [verdict("system", "no", "arch", text)] if wrong else []
    text = "the wheel is for " + ", ".join(f"{system} {cpu}" for system, cpu in sorted(platforms))
    system = machine.os.system
    if system not in {system for system, _ in platforms}:
        return [verdict("system", "no", "os", f"{text}; the machine runs {system}", f"take a wheel for {system}")]
    if arch and (system, arch) not in platforms:
        return [verdict("system", "no", "arch", f"{text}; the machine is {arch}", f"take a wheel for {arch}")]
    return [verdict("system", "yes", "os", text)]


def _judge_python(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    pythons = {python for tag in report.tags for python in tag.split("-")[0].split(".")}
    exact = {python for python in pythons if python.startswith("cp") and not any("abi3" in tag for tag in report.tags)}
    if not exact:
        return []
    need, versions = ", ".join(sorted(map(_dotted, exact))), {python.version for python in machine.pythons}
    if not versions:
        return [verdict("python", "unknown", "python-not-told", f"needs Python {need}")]
    if exact & {"cp" + "".join(version.split(".")[:2]) for version in versions}:
        return [verdict("python", "yes", "python", f"Python {need} is there")]
    text = f"needs Python {need}; the machine has {', '.join(sorted(versions))}"
    return [verdict("python", "no", "python", text, f"install Python {need}")]


def _dotted(tag: str) -> str:
    digits = tag.removeprefix("cp")
    return f"{digits[0]}.{digits[1:]}" if digits.isdecimal() and len(digits) > 1 else tag


def _judge_cpu(
    report: WheelReport, machine: Machine, operators: Sequence[OperatorTrial], kept: KeptTrials | None
) -> list[AxisVerdict]:
    cpu = report.cpu
    who = machine.cpu.name or machine.cpu.microarchitecture or "the CPU"
    facts = load_facts()
    features = features_of(machine.cpu, facts)
    if cpu.functions is None:
        return _judge_unread(report, features, who)
    answer = code_starts(cpu.required, (*cpu.unconditional, *cpu.suspects), features, who)
    doubtful = missing([use.isa for use in cpu.untold], features) if features is not None else []
    tried = kept is not None and (kept.crash or kept.verdict == "proven")
    if doubtful and answer.kind != "no" and not tried:
        text = f"{who} lacks {', '.join(doubtful)}; whether the code uses it there cannot be told from the file"
        proof = f"rekindle verify --cpu {machine.cpu.microarchitecture or 'NAME'}"
        return [verdict("cpu", "unknown", "cpu-cannot-tell", text, proof)]
    if answer.kind == "unknown":
        return [verdict("cpu", "unknown", answer.code, f"the code runs from {_oldest_cpu(cpu)}; {answer.text}")]
    if answer.kind == "yes":
        return [verdict("cpu", "yes", answer.code, f"{answer.text} ({_oldest_cpu(cpu)})")]
    rebuild = "build from source for this CPU: rekindle plan --build"
    short = f"{who} lacks {answer.want}: {describe_trials(operators)}" if describe_trials(operators) else answer.text
    if kept is not None and kept.crash:
        text = f"{who} lacks {answer.want}: {kept.crash} (tried by verify on {kept.date})"
        return [verdict("cpu", "no", "cpu-tried", text, rebuild)]
    if kept is not None and kept.verdict == "proven":
        harmed = [trial for trial in operators if trial.outcome not in ("runs", "refuses")]
        remedy = next((trial.avoid for trial in harmed if trial.outcome == "crashes" and trial.avoid), None)
        text = f"{short} (tried by verify on {kept.date})"
        return [verdict("cpu", "partly" if harmed else "yes", "cpu-tried", text, remedy)]
    remedy = f"rekindle verify --wheel FILE --cpu {machine.cpu.microarchitecture or 'NAME'} tries them"
    if answer.kind == "partly" and report.name in (None, "torch"):
        return [verdict("cpu", "partly", answer.code, short, remedy)]
    lacking = set((answer.want or "").split(", "))
    places = [row for row in cpu.evidence if lacking.intersection(row.isa)]
    if answer.kind == "partly":
        # What the operators of torch are to torch, its libraries are to another package.
        where = sorted({posixpath.basename(row.file.split(" (")[0]) for row in places})
        return [verdict("cpu", "partly", answer.code, f"{short} ({', '.join(where)})")]
    text = f"{answer.text} ({'; '.join(f'{row.function} in {row.file}' for row in places[:3])})"
    early = missing(cpu.at_load, features) if features is not None else []
    if early:
        text = f"{who} lacks {', '.join(early)}, which runs as soon as a library of it is loaded: it does not start"
    # An official wheel is made to choose at run time, and the planner offers it: only a report can say that it does
    # not start at all. What was read then names the places that crash.
    elif report.name == "torch" and _is_official(report):
        reported = wheel_starts((report.version or "").split("+")[0], features, facts, cpu.arch)
        if reported.kind != "no":
            named = describe_trials([trial for trial in operators if trial.operator]).partition("; ")[2]
            text = "; ".join([text, *([named] if named else []), f"as a whole: {reported.text}"])
            return [verdict("cpu", "partly", "cpu-places", text, remedy)]
    other = "take an older release, or build it on this machine"
    return [verdict("cpu", "no", answer.code, text, rebuild if report.name in (None, "torch") else other)]


def _is_official(report: WheelReport) -> bool:
    """A wheel of PyTorch's own: of a flavour of theirs, or a release by its bare number with PyPI's kind of tag."""
    facts = load_facts()
    if find_flavour(report.version, facts, cuda=report.cuda, rocm=report.rocm) is not None:
        return True
    return report.version in facts.releases and any("manylinux" in tag for tag in report.tags)


def _judge_unread(report: WheelReport, features: frozenset[str] | None, who: str) -> list[AxisVerdict]:
    """Code that was not read is not judged to run on a CPU without AVX2 (2013) or LSE (2016), which compilers may take
    for granted. Pure Python has no such code."""
    native = any(not tag.endswith("-any") for tag in report.tags) if report.quick else report.cpu.arch is not None
    if features is None or not native:
        return []
    left_out = "--quick" if report.quick else "--no-cpu"
    base, text = "lse" if "asimd" in features else "avx2", f"the code was not read ({left_out})"
    if missing([base], features):
        text += f", and {who} lacks {base.upper()}"
        return [verdict("cpu", "unknown", "cpu-not-read", text, f"leave out {left_out}")]
    return [verdict("cpu", "unknown", "cpu-code-not-told", text)]


def _oldest_cpu(cpu: WheelCpu) -> str:
    return cpu.runs_from or f"{cpu.at_least} or newer, which cannot be told"


def _judge_libc(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    if machine.os.system != "linux":
        return []
    facts = load_facts()
    need = tag_libc(report.tags, facts)
    # What the libraries really ask for counts more than what the tag promises.
    if report.links.glibc is not None:
        need = Libc("glibc", report.links.glibc)
    elif not report.quick and (need is None or need.kind == "glibc"):
        need = None
    answer = libc_runs(need, libc_of(machine.os, facts))
    if not answer.code:
        return []
    noun = "torch" if report.name in (None, "torch") else "release"
    remedy = f"take an older {noun}, a container, or build on this machine"
    if answer.code == "libc-musl":
        remedy = "use a container or a distribution with glibc (Debian, Ubuntu, Fedora)"
    return [verdict("libc", answer.kind, answer.code, answer.text, remedy if answer.kind == "no" else None)]


def _judge_libraries(report: WheelReport) -> list[AxisVerdict]:
    outside = [source for source in report.links.sources if not source.system]
    if unknown := [source.library for source in outside if source.package is None]:
        text = f"must be found on the machine: {', '.join(unknown[:6])}"
        return [verdict("libraries", "unknown", "libraries", text)]
    packages = ", ".join(sorted({source.package for source in outside if source.package}))
    text = f"libraries come from {packages}"
    return [verdict("libraries", "yes", "libraries-from-packages", text)] if packages else []
