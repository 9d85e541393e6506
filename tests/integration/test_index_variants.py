"""Real uv, pip and variantlib choose from a wheelhouse with variants; what uv takes is what the planner would take."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from binaries import make_elf, make_entry, make_fatbin
from binaries import make_wheel as make_bytes

pytestmark = pytest.mark.integration
REKINDLE = [sys.executable, "-m", "rekindle"]
TAG = "py3-none-any"
# Nobody's own places to look for wheels.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))} | {
    "PIP_CONFIG_FILE": os.devnull
}
# Local version, toolkit, machine code, PTX.
WHEELS = [
    ("2.6.0+cpu", None, (), ()),
    ("2.6.0+kepler", "11.8", (35, 37), ()),
    ("2.6.0+cu126", "12.6", (50, 60, 70, 75, 80, 86, 90), (90,)),
    ("2.6.0+cu130", "13.0", (75, 80, 86, 90, 100, 120), (120,)),
]
# The driver's CUDA, the card, and the toolkit of the wheel it must get (None: the CPU wheel).
MACHINES = [
    ("13.2", "8.9", "cu130"),
    ("13.0", "6.1", "cu126"),
    ("13.0", "7.5", "cu130"),
    ("12.4", "6.1", "cu126"),
    ("12.2", "5.2", "cu126"),
    ("12.8", "9.0", "cu126"),
    ("13.0", "12.0", "cu130"),
    ("12.8", "12.0", None),
    ("11.4", "3.5", "cu118"),
    ("11.4", "3.7", "cu118"),
    ("11.0", "7.0", "cu118"),
    ("10.2", "7.0", None),
]
# Where uv cannot do better: a driver of CUDA 11 sees no compute capability of the Kepler wheel, which is bound by the
# driver alone, so a newer card with such an old driver gets it too. Documented in docs/travel.md.
LIMITS = {("11.0", "7.0")}


def run(argv: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env={**CLEAN, **(env or {})})


def wheel(folder: Path, version: str, cuda: str | None, sass: tuple[int, ...], ptx: tuple[int, ...]) -> Path:
    says = f"__version__ = {version!r}\ncuda = {cuda!r}\nhip = None\n".encode()
    files = {"torch/__init__.py": b"from torch.version import __version__, cuda\n", "torch/version.py": says}
    entries = [make_entry(2, arch) for arch in sass] + [make_entry(1, arch) for arch in ptx]
    if entries:
        files["torch/lib/libtorch_cuda.so"] = make_elf({".nv_fatbin": make_fatbin(entries)})
    path = folder / f"torch-{version}-{TAG}.whl"
    path.write_bytes(make_bytes(files, name="torch", version=version, tag=TAG))
    return path


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("variants")
    root = base / "house"
    for row in WHEELS:
        added = run([*REKINDLE, "index", "add", str(wheel(base, *row)), "--root", str(root), "-q"])
        assert added.returncode == 0, added.stderr
    built = run([*REKINDLE, "index", "build", "--root", str(root), "--variants", "--json"])
    assert built.returncode == 0, built.stderr
    labels = {row["label"] for row in json.loads(built.stdout)["variants"]}
    assert labels == {"", "null", "cu118_35_37", "cu126_50_60_70_75_80_86_90", "cu130_75_80_86_90_100_120"}
    return root


@pytest.fixture(scope="module")
def url(house: Path) -> Iterator[str]:
    argv = [*REKINDLE, "index", "serve", "--root", str(house), "--port", "0"]
    server = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    found = re.search(r"http://\S+", server.stderr.readline())
    assert found
    yield found[0].rstrip("/").removesuffix("/simple") + "/variant/simple/"
    server.send_signal(2)
    server.wait(10)


def uv(target: Path, *argv: str, driver: str = "", sm: str = "") -> str:
    """What ``torch.version`` says after uv installed it: toolkit, or None for the CPU wheel, "" for nothing."""
    overrides = {"NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": driver, "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": sm}
    env = {name: value for name, value in overrides.items() if value}
    uv_path = Path(sys.executable).with_name("uv")
    base = [str(uv_path), "pip", "install", "--no-config", "--no-cache", "--target", str(target), "--reinstall"]
    done = run([*base, *argv, "torch"], env)
    if done.returncode:
        return done.stderr
    return (target / "torch" / "version.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("driver", "sm", "toolkit"), MACHINES)
def test_uv_chooses_by_the_card(url: str, tmp_path: Path, driver: str, sm: str, toolkit: str | None) -> None:
    said = uv(tmp_path, "--preview-features", "wheel-variants", "--index-url", url, driver=driver, sm=sm)
    wanted = {None: "cuda = None", "cu118": "'11.8'", "cu126": "'12.6'", "cu130": "'13.0'"}[toolkit]
    assert wanted in said


@pytest.mark.parametrize(("driver", "sm", "toolkit"), [row for row in MACHINES if row[:2] not in LIMITS])
def test_the_planner_agrees(driver: str, sm: str, toolkit: str | None) -> None:
    """The wheel that uv takes holds code that runs on the card, and where it takes the CPU wheel none does."""
    from rekindle.compat.driver import driver_runs
    from rekindle.compat.images import GpuCode, covers
    from rekindle.facts import load_facts
    from rekindle.model.arch import parse_sm

    facts = load_facts()
    card = parse_sm(sm)
    able = set()
    own = next(kit for kit in facts.toolkits if kit.startswith(driver))
    number = facts.cuda.toolkit[own].driver_linux
    for version, cuda, sass, _ in WHEELS:
        if cuda is None:
            continue
        code = GpuCode(targets=tuple(f"sm_{arch}" for arch in sass), cuda=cuda)
        runs = covers(code, card, "linux", facts).runs == "yes"
        if runs and driver_runs(number, cuda, (card,), "linux", facts).kind != "no":
            able.add("cu" + cuda.replace(".", ""))
    assert (toolkit in able) if toolkit else not able


def test_the_table_in_the_documentation_is_what_uv_chose() -> None:
    text = (Path(__file__).parents[2] / "docs/travel.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+\.\d) \| (\d+\.\d) \| (\w+) \|", text, re.MULTILINE)
    assert rows == [(driver, sm, toolkit or "CPU") for driver, sm, toolkit in MACHINES]


def test_uv_without_variants_and_pip_take_a_plain_wheel(url: str, tmp_path: Path) -> None:
    assert "cuda = None" in uv(tmp_path / "uv", "--index-url", url)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-cache-dir",
        "--target",
        str(tmp_path / "pip"),
        "--index-url",
        url,
    ]
    done = run([*pip, "torch"])
    assert done.returncode == 0, done.stderr
    assert "cuda = None" in (tmp_path / "pip" / "torch" / "version.py").read_text()


@pytest.mark.parametrize("damage", ["missing", "broken"])
def test_a_release_without_its_variants_file_is_never_half_read(
    house: Path, url: str, tmp_path: Path, damage: str
) -> None:
    """uv then leaves the variants alone and takes a plain wheel, or says that it cannot read the file."""
    file = house / "variants" / "torch" / "torch-2.6.0-variants.json"
    good = file.read_bytes()
    try:
        file.write_bytes(b"{") if damage == "broken" else file.unlink()
        said = uv(tmp_path, "--preview-features", "wheel-variants", "--index-url", url, driver="13.2", sm="8.9")
        assert "'13.0'" not in said or "+" in said or "variants" in said
    finally:
        file.write_bytes(good)


def test_variantlib_reads_what_we_write(house: Path) -> None:
    pytest.importorskip("variantlib")
    import zipfile

    from variantlib.variant_dist_info import VariantDistInfo
    from variantlib.variants_json import VariantsJson

    for path in (house / "variants" / "torch").glob("*.whl"):
        with zipfile.ZipFile(path) as archive:
            name = next((n for n in archive.namelist() if n.endswith("/variant.json")), None)
            if name is None:
                continue
            assert VariantDistInfo(archive.read(name)).variant_desc is not None
    data = json.loads((house / "variants" / "torch" / "torch-2.6.0-variants.json").read_text())
    assert len(VariantsJson(data).variants) == 4


def test_every_variant_wheel_is_a_sound_wheel(house: Path, tmp_path: Path) -> None:
    """RECORD, names and digests as our own checker wants them, under the name without its label."""
    from rekindle.index.wheelhouse.reading import read_wheel

    found = sorted((house / "variants" / "torch").glob("*.whl"))
    assert len(found) == 5
    for path in found:
        plain = "-".join(path.stem.split("-")[:5])
        read = read_wheel(Path(shutil.copy(path, tmp_path / f"{plain}.whl")))
        assert b"Version: 2.6.0\n" in read.metadata


def test_a_second_build_writes_nothing_again(house: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (house / "variants").rglob("*.whl")}
    run([*REKINDLE, "index", "build", "--root", str(house), "--variants", "-q"])
    assert {path: path.stat().st_mtime_ns for path in (house / "variants").rglob("*.whl")} == before
