"""The look-ups behind the texts: what each one says, and when it says nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle import api
from rekindle.explain import values as look
from rekindle.explain.events import Reading
from rekindle.explain.ranking import FILLS
from rekindle.explain.scene import Scene, carries, find_carrier
from rekindle.model.arch import Gfx, Sm
from rekindle.model.facts import Platform
from rekindle.model.machine import Compiler, Cpu, Drivers, Gpu, Machine, Os
from rekindle.model.plan import Plan, Wish
from rekindle.model.version import key
from rekindle.plan.describe import machine_from_flags
from scenes import event, scene, seen, wheel

LINUX = Os(system="linux", arch="x86_64")


def test_a_look_up_is_called_as_rules_name_it() -> None:
    assert FILLS["plan-for-card"] is look._plan_for_card and look.FILLS["raised-in"] is look._raised_in


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([{"a": "1"}, {"a": "2", "b": "3"}], {"a": "2", "b": "3"}),
        ([{"major": "8"}, {"minor": "6"}], {"capability": "8.6"}),
        ([{"major": "8"}], {"major": "8"}),
        ([{"minor": "6"}], {"minor": "6"}),
        ([], {}),
    ],
)
def test_what_the_log_said_last_counts(given: list[dict[str, str]], values: dict[str, str]) -> None:
    signals = {"s": seen(*(event(line, values=each) for line, each in enumerate(given)))}
    assert look.surroundings(Reading(signals=signals)) == values


@pytest.mark.parametrize(
    ("arch", "first", "last"),
    [
        ("compute_35", None, "11.8"),  # older than the tables
        ("compute_75", "10.0", None),  # not dropped yet
        ("compute_101", "12.8", "12.9"),
        ("compute_120", "12.8", None),
        ("compute_10", None, None),
    ],
)
def test_from_which_to_which_toolkit(arch: str, first: str | None, last: str | None) -> None:
    values = look.FILLS["toolkit-for-arch"](event(arch=arch), scene())
    assert (values.get("first_cuda"), values.get("last_cuda")) == (first, last)
    assert "toolkit" not in values and "newest_arch" not in values
    assert look.FILLS["toolkit-for-card"](event(capability=arch), scene()).get("first_cuda") == first


def test_what_the_toolkit_in_use_knows() -> None:
    values = look.FILLS["toolkit-for-arch"](event(arch="compute_120"), scene(toolkit="12.3"))
    assert (values["toolkit"], values["newest_arch"]) == ("CUDA 12.3", "9.0")
    values = look.FILLS["toolkit-for-arch"](event(arch="compute_120"), scene(toolkit="99.9"))
    assert values["toolkit"] == "CUDA 99.9" and "newest_arch" not in values
    assert look.FILLS["toolkit-for-arch"](event(arch="nonsense"), scene(toolkit="12.3")) == {}


def test_the_wheel_for_a_card() -> None:
    values = look.FILLS["toolkit-for-card"](event(capability="6.1"), scene())
    carrier = find_carrier(Sm(6, 1), scene())
    assert carrier is not None and carrier.index is not None
    assert carrier.cuda and values["carrier"] == (
        f"torch {carrier.torch} with CUDA {carrier.cuda} ({carrier.flavour}): {carrier.command}"
    )
    assert (values["dotted"], values["capability"]) == ("6.1", "sm_61")
    assert "carrier" not in look.FILLS["toolkit-for-card"](event(capability="2.0"), scene())
    assert look.FILLS["toolkit-for-card"](event(), scene()) == {}


@pytest.mark.parametrize("name", ["GTX 980", "GTX 1080", "Titan V", "RTX 4090", "RTX 5090", "K80", "GT 710"])
def test_the_torch_for_a_card_is_the_plans(name: str) -> None:
    machine = machine_from_flags(gpu=[name], os="linux", arch="x86_64")
    planned, card = api.plan(machine, Wish(python="3.11"), wheelhouses=()), machine.gpus[0].arch
    assert isinstance(card, Sm)
    carrier = find_carrier(card, scene())
    if planned.answer == "install":
        assert carrier is not None and carrier.torch == planned.torch
    else:
        assert carrier is None or key(carrier.torch) < key(planned.torch or "")


@pytest.mark.parametrize(
    ("card", "driver", "torch", "flavour"),
    [
        ("3.7", None, "torch==2.3.1", "cu118"),
        ("6.1", None, "torch", "cu126"),
        ("6.1", "13.0", "torch", "cu126"),
        ("6.1", "11.4", "torch", "cu118"),
        ("8.6", "12.4", "torch", "cu126"),
        ("8.6", "13.0", "torch", "cu132"),
        ("8.6", "10.0", None, None),
        ("2.0", None, None, None),
    ],
)
def test_the_torch_to_install_has_the_card_and_runs_on_the_driver(
    card: str, driver: str | None, torch: str | None, flavour: str | None
) -> None:
    values = look.FILLS["cuda-torch"](event(capability=card), scene(driver_cuda=driver or ""))
    assert (values.get("cuda_torch"), values.get("cuda_flavour")) == (torch, flavour)


def test_the_command_names_the_index_where_there_is_one() -> None:
    carrier = find_carrier(Sm(9, 0), scene())
    assert carrier is not None
    assert carrier.command == f"pip install --force-reinstall torch=={carrier.torch} --index-url {carrier.index}"
    assert replace(carrier, index=None).command == f"pip install --force-reinstall torch=={carrier.torch}"


def test_a_carrier_is_looked_for_on_the_platform_of_the_log() -> None:
    on_linux = find_carrier(Sm(7, 5), scene())
    on_arm = find_carrier(Sm(7, 5), scene(["arm"]))
    on_windows = find_carrier(Sm(7, 5), scene(["windows"]))
    assert on_linux is not None and on_windows is not None and on_arm is None
    assert find_carrier(Sm(6, 1), scene(), torch="2.9.1") is not None
    assert find_carrier(Sm(3, 7), scene(), torch="2.9.1") is None
    rows = {row.name: row for row in scene().facts.flavours("2.9.1")}
    assert carries(rows["cu126"], Sm(6, 1), scene()) and not carries(rows["cu128"], Sm(6, 1), scene())


def test_the_plan_counts_before_the_facts() -> None:
    ready = Plan(answer="install", commands=("pip install X", "more"))
    here = event(capability="9.0")
    assert look.FILLS["plan-for-card"](here, scene(plan=ready))["plan_hint"] == "For this machine: pip install X"
    for other in (Plan(answer="build", commands=("make",)), Plan(answer="install"), None):
        hint = look.FILLS["plan-for-card"](here, scene(plan=other))["plan_hint"]
        assert hint.startswith("The newest published torch with code for sm_90 is ")
    assert "plan_hint" not in look.FILLS["plan-for-card"](event(), scene())
    assert look.FILLS["plan-for-card"](event(capability="2.0"), scene())["plan_hint"].startswith(
        "No published torch carries"
    )


def test_what_is_known_of_card_and_wheel() -> None:
    values = look.FILLS["plan-for-card"](
        event(capability="9.0", supported="sm_80 sm_86", gpu="H100"), scene(gpu_name="other")
    )
    assert (values["minimum"], values["dotted"], values["capability"]) == ("sm_80", "9.0", "sm_90")
    assert values["gpu"] == "H100" and values["built_sentence"] == "This torch was built for sm_80 sm_86."
    values = look.FILLS["plan-for-card"](event(), scene(gpu_name="other"))
    assert values == {"gpu": "other"}


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({}, "This torch"),
        ({"torch_version": "2.6.0"}, "torch 2.6.0"),
        ({"torch_version": "2.6.0", "torch_flavour": "cu124"}, "torch 2.6.0+cu124"),
        ({"torch_flavour": "cu124"}, "This torch"),
    ],
)
def test_the_torch_is_named_as_far_as_it_is_known(known: dict[str, str], name: str) -> None:
    values = look.FILLS["plan-for-card"](event(supported="sm_80"), scene(values=known))
    assert values["built_sentence"] == f"{name} was built for sm_80."


def test_the_installed_torch() -> None:
    assert look.FILLS["installed-torch"](event(), scene()) == {}
    report = wheel("sm_80", "sm_90")
    assert look.FILLS["installed-torch"](event(), scene(wheel=report)) == {
        "installed": "torch 2.6.0+cu124",
        "supported": "sm_80 sm_90",
    }


@pytest.mark.parametrize(
    ("known", "driver", "sentence"),
    [
        ({"driver_version": "570.1"}, None, "Driver 570.1."),
        ({"driver_version": "570.1"}, "550.2", "Driver 570.1."),
        ({}, "550.2", "Driver 550.2."),
        ({"driver_cuda": "12.8"}, "550.2", "Driver 550.2 knows CUDA 12.8."),
        ({"driver_cuda": "12.8", "toolkit": "12.9"}, "550.2",
         "Driver 550.2 knows CUDA 12.8, the toolkit here is 12.9."),
        ({"toolkit": "12.9"}, "550.2", "Driver 550.2, the toolkit here is 12.9."),
        ({"driver_cuda": "12.8", "toolkit": "12.9"}, None, None),
    ],
)  # fmt: skip
def test_driver_and_toolkit(known: dict[str, str], driver: str | None, sentence: str | None) -> None:
    machine = Machine(os=LINUX, drivers=Drivers(nvidia=driver)) if driver else None
    values = look.FILLS["driver-and-toolkit"](event(), scene(machine=machine, values=known))
    assert values == ({"driver_sentence": sentence} if sentence else {})


def test_the_host_compiler() -> None:
    here = event(around="/usr/include/c++/13/x.h cuda-12.3/bin/nvcc")
    values = look.FILLS["host-compiler"](here, scene())
    assert values == {"toolkit": "CUDA 12.3", "newest": "12", "have_gcc": "13", "first_cuda": "12.4"}
    assert look.FILLS["host-compiler"](event(), scene()) == {}
    assert look.FILLS["host-compiler"](event(cuda="11.8"), scene())["newest"] == "11"
    assert look.FILLS["host-compiler"](event(cuda="11.8"), scene(toolkit="12.3"))["toolkit"] == "CUDA 12.3"
    assert look.FILLS["host-compiler"](event(cuda="11.8", newest="10"), scene())["newest"] == "10"
    assert look.FILLS["host-compiler"](event(cuda="99.9"), scene()) == {"toolkit": "CUDA 99.9"}
    assert look.FILLS["host-compiler"](event(compiler_version="14.2.0"), scene()) == {
        "have_gcc": "14",
        "first_cuda": "12.8",
    }
    both = event(around="gcc-11 ", compiler_version="14.2.0")
    assert look.FILLS["host-compiler"](both, scene())["have_gcc"] == "11"
    assert "first_cuda" not in look.FILLS["host-compiler"](event(around="gcc-99 "), scene())


def test_shared_memory_in_kib() -> None:
    assert look.FILLS["shared-bytes"](event(used="0xc400", limit="0xc000"), scene()) == {
        "used_kib": "49 KiB",
        "limit_kib": "48 KiB",
    }
    assert look.FILLS["shared-bytes"](event(used="0xc400"), scene()) == {"used_kib": "49 KiB"}
    assert look.FILLS["shared-bytes"](event(), scene()) == {}


def test_the_compiler() -> None:
    here = event(around="-- The CXX compiler identification is GNU 12.2.0")
    machine = Machine(os=LINUX, compilers=(Compiler(kind="clang", version="15"), Compiler(kind="gcc", version="9")))
    assert look.FILLS["compiler-of-machine"](here, scene(machine=machine)) == {"compiler_version": "GNU 12.2.0"}
    assert look.FILLS["compiler-of-machine"](event(), scene(machine=machine)) == {"compiler_version": "clang 15"}
    assert look.FILLS["compiler-of-machine"](event(), scene(machine=Machine(os=LINUX))) == {}
    assert look.FILLS["compiler-of-machine"](event(), scene()) == {}


@pytest.mark.parametrize(
    ("memory", "threads", "plan", "jobs"),
    [
        (32.0, None, None, "8"),
        (32.0, 4, None, "4"),
        (32.0, None, Plan(answer="build", torch="1.8.1"), "16"),
        (5000.0, None, None, "1024"),
    ],
)
def test_jobs_for_the_memory(memory: float, threads: int | None, plan: Plan | None, jobs: str) -> None:
    machine = Machine(os=LINUX, memory_gib=memory, cpu=Cpu(threads=threads))
    values = look.FILLS["memory-of-machine"](event(), scene(machine=machine, plan=plan))
    assert values == {"memory_sentence": f"This machine has {memory:.0f} GiB.", "jobs": jobs}


def test_a_machine_that_does_not_say_is_not_spoken_of() -> None:
    for here in (scene(), scene(machine=Machine(os=LINUX))):
        assert look.FILLS["memory-of-machine"](event(), here) == {}
        assert look.FILLS["system-of-machine"](event(), here) == {}
        assert look.FILLS["cpu-of-machine"](event(), here) == {}


def test_disk_libc_and_processor() -> None:
    os = Os(system="linux", glibc="2.31")
    here = scene(machine=Machine(os=os, disk_free_gib=0.0, cpu=Cpu(name=" Xeon ")), cpu_name="Celeron")
    sentences = {"disk_sentence": "0 GiB are free now.", "glibc_sentence": "This machine has glibc 2.31."}
    assert look.FILLS["system-of-machine"](event(), here) == sentences
    assert look.FILLS["cpu-of-machine"](event(), here) == {"cpu_sentence": "The processor (Xeon) lacks it."}
    assert look.FILLS["cpu-of-machine"](event(), scene(cpu_name="Celeron")) == {
        "cpu_sentence": "The processor (Celeron) lacks it."
    }


@pytest.mark.parametrize(
    ("name", "reach"),
    [
        ("Intel(R) Core(TM)2 Duo CPU E6600 @ 2.40GHz", "has no SSE4.1"),
        ("Intel(R) Xeon(R) CPU X5650 @ 2.67GHz", "has SSE4.1 but no AVX"),
        ("Intel(R) Xeon(R) CPU E5-2650 0 @ 2.00GHz", "has AVX but no AVX2"),
        ("Intel(R) Xeon(R) CPU E5-2650 v3 @ 2.30GHz", "has AVX2 but no AVX-512"),
        ("Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz", None),
        ("Frobnicator 9000", None),
    ],
)
def test_how_far_up_a_named_processor_goes(name: str, reach: str | None) -> None:
    """The log names the processor, and the tables say what it has: so it is known what it lacks first."""
    told = look.FILLS["cpu-of-machine"](event(), scene(cpu_name=name)).get("cpu_reach")
    assert told == (f"The processor ({name}) {reach}" if reach else None)
    machine = Machine(os=LINUX, cpu=Cpu(name=name, features=("sse4_1", "avx", "avx2")))
    told = look.FILLS["cpu-of-machine"](event(), scene(machine=machine)).get("cpu_reach")
    assert told == f"The processor ({name}) has AVX2 but no AVX-512", "what the machine itself says comes first"


def test_the_gfx_target() -> None:
    machine = Machine(
        os=LINUX, gpus=(Gpu(vendor="nvidia", arch=Sm(8, 0)), Gpu(vendor="amd", arch=Gfx("gfx1031")))
    )  # fmt: skip
    assert look.FILLS["gfx-of-machine"](event(), scene()) == {}
    assert look.FILLS["gfx-of-machine"](event(), scene(machine=machine)) == {"gfx": "gfx1031", "override": "10.3.0"}
    assert look.FILLS["gfx-of-machine"](event(gfx="gfx1030"), scene(machine=machine)) == {"gfx": "gfx1030"}
    assert look.FILLS["gfx-of-machine"](event(), scene(machine=machine, gfx="gfx90c:xnack-")) == {
        "gfx": "gfx90c:xnack-",
        "override": "9.0.0",
    }
    assert look.FILLS["gfx-of-machine"](event(gfx="gfx1030"), scene(gfx="gfx1031"))["gfx"] == "gfx1030"
    assert look.FILLS["gfx-of-machine"](event(gfx="gfx1"), scene()) == {}  # the log ends there


def test_the_wheel_for_an_amd_card_and_its_override() -> None:
    assert look.FILLS["wheel-for-gfx"](event(), scene()) == {}
    vega = look.FILLS["wheel-for-gfx"](event(gfx="gfx906:xnack-"), scene())
    assert "torch==2.7.1 --index-url https://download.pytorch.org/whl/rocm6.3" in vega["wheel_hint"]
    assert "HSA_OVERRIDE" not in vega["override_hint"]  # no neighbour's code runs on Vega
    assert (
        "HSA_OVERRIDE_GFX_VERSION=10.3.0" in look.FILLS["wheel-for-gfx"](event(gfx="gfx1031"), scene())["override_hint"]
    )
    assert '"torch[device-gfx1152]==' in look.FILLS["wheel-for-gfx"](event(gfx="gfx1152"), scene())["wheel_hint"]


@pytest.mark.parametrize(
    ("found", "known", "version"),
    [
        ("11040", {}, "11.4"),
        ("9020", {}, "9.2"),
        ("902", {"driver_cuda": "12.2"}, "12.2"),
        ("12.4", {"driver_cuda": "12.2"}, "12.2"),
        ("version", {}, None),
        (None, {"driver_cuda": "12.2"}, "12.2"),
    ],
)
def test_the_cuda_of_the_driver(found: str | None, known: dict[str, str], version: str | None) -> None:
    here = event(values={"found": found} if found else {})
    assert look.FILLS["driver-found"](here, scene(values=known)).get("found_cuda") == version


@pytest.mark.parametrize(
    ("flavour", "text"), [("cu124", "CUDA 12.4"), ("cu92", None), ("cpu", None), ("cu1241", None), ("", None)]
)
def test_the_cuda_of_a_flavour(flavour: str, text: str | None) -> None:
    assert look.FILLS["torch-cuda"](event(), scene(torch_flavour=flavour)).get("torch_cuda_text") == text


def test_the_python_for_a_torch() -> None:
    here = event(package="torch", spec="==1.8.1", versions="1.13.0, 2.0.0, 2.6.0", python="3.12")
    assert look.FILLS["python-for-torch"](here, scene(python_version="3.13")) == {
        "python": "3.12",
        "versions_sentence": "It offers 1.13.0 to 2.6.0.",
        "supported_sentence": "torch 1.8.1 has wheels for Python 3.6 to 3.9 there.",
        "python_hint": "Use Python 3.6 to 3.9 for torch 1.8.1, e.g. uv venv --python 3.9.",
    }
    assert look.FILLS["python-for-torch"](event(package="torch", version="1.8.1"), scene())["supported_sentence"]
    assert look.FILLS["python-for-torch"](event(versions="none"), scene(python_version="3.13")) == {
        "python": "3.13",
        "versions_sentence": "It has no wheel at all for this Python and platform; "
        "a Python too new for it looks like this.",
    }
    old = look.FILLS["python-for-torch"](event(versions="none"), scene(python_version="3.8"))["versions_sentence"]
    assert "Python 3.8 is too old for today's releases, which want 3.1" in old
    assert look.FILLS["python-for-torch"](event(package="numpy", spec="==1.8.1"), scene()) == {}
    assert look.FILLS["python-for-torch"](event(package="torch", spec="==9.9.9"), scene()) == {}
    assert look.FILLS["python-for-torch"](event(package="torch"), scene()) == {}


class OnMac(Scene):
    @property
    def platform(self) -> Platform:
        return "macos_arm64"


def test_a_release_with_a_single_python_names_it_alone() -> None:
    here = OnMac(reading=Reading())
    single = here.facts.release("1.8.0")
    assert single is not None and len(single.pythons["macos_arm64"]) == 1
    values = look.FILLS["python-for-torch"](event(package="torch", spec="==1.8.0"), here)
    python = single.pythons["macos_arm64"][0]
    assert values["supported_sentence"] == f"torch 1.8.0 has wheels for Python {python} there."
    two = look.FILLS["python-for-torch"](event(package="torch", spec="==1.9.0"), here)
    assert two["supported_sentence"] == "torch 1.9.0 has wheels for Python 3.8 to 3.9 there."


def test_where_it_was_raised() -> None:
    frames = "lib/site-packages/torch/x.py line 3 C:\\x\\dist-packages\\\\xformers\\y.py line 4"
    values = look.FILLS["raised-in"](event(around=frames), scene())
    assert values["raised_sentence"] == "It was raised inside the package xformers."
    assert "pip install -U xformers" in values["raised_hint"]
    assert look.FILLS["raised-in"](event(around="/home/me/x.py"), scene()) == {}


def test_a_graft_of_the_torch_that_is_there_is_named() -> None:
    thor = event(capability="11.0")
    told = {"torch_version": "2.12.1", "torch_flavour": "cu130"}
    hint = look.FILLS["plan-for-card"](thor, replace(scene(), values=told))["plan_hint"]
    assert "Or a graft gives torch 2.12.1 code for sm_110 in about" in hint and "on 8 cores" in hint
    assert "a graft gives" in look.FILLS["toolkit-for-card"](thor, replace(scene(), values=told))["carrier"]
    cores = Machine(os=LINUX, cpu=Cpu(threads=16))
    assert "on 16 cores" in look.FILLS["plan-for-card"](thor, replace(scene(machine=cores), values=told))["plan_hint"]
    for values in ({"torch_version": "2.12.1"}, {**told, "torch_version": "1.0.0"}, {}):
        assert "graft" not in look.FILLS["plan-for-card"](thor, replace(scene(), values=values))["plan_hint"]
    assert "graft" not in look.FILLS["plan-for-card"](thor, replace(scene(["windows"]), values=told))["plan_hint"]
