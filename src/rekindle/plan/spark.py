"""The plan for spark, the miniature: the same document as for torch, decided from the same machine. CUDA is planned
only where it will work: a toolkit whose nvcc is there, a host compiler it accepts, and architectures it can emit.
Everything else is said in ``because``."""

from collections.abc import Mapping, Sequence

from rekindle.model.arch import Sm
from rekindle.model.machine import Machine, Toolkit
from rekindle.model.plan import BuildRecipe, Plan, PlannedFor, Reason
from rekindle.model.version import flavour_name
from rekindle.plan.rules import say
from rekindle.plan.supply import drop_names


def plan_spark(
    machine: Machine,
    *,
    version: str,
    python: str,
    cuda: Toolkit | None = None,
    emits: Sequence[Sm] = (),
    archs: tuple[str, ...] = (),
    why_no_cuda: str | None = None,
    settings: Mapping[str, str] | None = None,
    patches: tuple[str, ...] = (),
) -> Plan:
    """``cuda`` is the toolkit to use, which can compile for ``emits``; ``archs`` of these are wanted (default: the
    machine's own cards). ``settings`` by hand win over what is planned."""
    archs = (archs or choose_archs(machine, emits)) if cuda else ()
    if cuda and archs:
        has_card = any(isinstance(gpu.arch, Sm) for gpu in machine.gpus)
        whose = "this machine's GPU" if has_card else "no GPU is here, so the oldest and newest it can emit"
        about_cuda = say("spark-with-cuda", cuda=cuda.version, archs=", ".join(archs), whose=whose)
    else:
        about_cuda = Reason(code="spark-cpu-only", text=why_no_cuda or "No CUDA toolkit with nvcc was found: CPU only.")
    env = {"USE_CUDA": "1" if archs else "0"}
    used = cuda.version if archs and cuda else None
    if archs:
        env["SPARK_CUDA_ARCH_LIST"] = ";".join(archs)
        env["SPARK_CUDA_VERSION"] = used or ""
    asserts = {"USE_CUDA": env["USE_CUDA"], "BUILD_PYTHON": "ON", "CMAKE_BUILD_TYPE": "Release"}
    env |= settings or {}
    return Plan(
        answer="build",
        as_asked=True,
        project="spark",
        variant=flavour_name(used, None),
        cuda=used,
        python=python,
        arch_list=archs,
        commands=("rekindle demo",),
        because=(say("spark-source-only", version=version), about_cuda),
        build=BuildRecipe(
            source="spark",
            env=env,
            asserts=drop_names(asserts, settings or ()),
            patches=patches,
            disk_gib=0.2,
            memory_gib=1.0,
            minutes=(1, 2),
        ),
        os=PlannedFor(system=machine.os.system, arch=machine.os.arch) if machine.os.arch else None,
    )


def choose_archs(machine: Machine, emits: Sequence[Sm]) -> tuple[str, ...]:
    """The machine's own cards; without any, the oldest and the newest that the toolkit knows, to show both."""
    plain = sorted(arch for arch in emits if not arch.suffix)
    if not plain:
        return ()
    cards = sorted({gpu.arch for gpu in machine.gpus if isinstance(gpu.arch, Sm) and gpu.arch in plain})
    if cards:
        return tuple(arch.dotted for arch in cards)
    return tuple(dict.fromkeys((plain[0].dotted, f"{plain[-1].dotted}+PTX")))
