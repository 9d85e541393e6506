"""What a wheel says in the words of variants: bounds just right, labels that never collide, nothing invented."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.api import machine_from_flags, variant_environment
from rekindle.api.variant_plugin import RekindlePlugin, _old_uv, supported_by
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.protocol import Completed
from rekindle.index.variants import MAX_LABEL, Variant, variant_file, variants_of, write_variant
from rekindle.model.wheelhouse import WheelRow
from tiny_wheels import make_wheel

FACTS = load_facts()


def row(**more: object) -> WheelRow:
    values: dict[str, object] = {
        "file": "torch-2.6.0+x-cp311-cp311-linux_x86_64.whl",
        "url": "",
        "project": "torch",
        "version": "2.6.0+x",
        "bytes": 1,
        "sha256": "0",
        "metadata_sha256": "0",
        "added": "",
        "systems": ("linux",),
        "inspected": True,
        **more,
    }
    return WheelRow(**values)  # type: ignore[arg-type]


def only(**more: object) -> Variant:
    (found,) = variants_of(row(**more), FACTS)
    return found


def test_a_wheel_without_gpu_code_is_everybodys() -> None:
    assert only() == Variant("null", {})


def test_machine_code_and_ptx_are_told_apart() -> None:
    found = only(cuda="12.6", sass=("sm_60", "sm_61"), ptx=("compute_90",))
    assert found.label == "cu126_60_61"
    assert found.properties == {
        "nvidia": {"cuda_version_lower_bound": ["12.0"], "sm_arch": ["60_real", "61_real", "90_virtual"]}
    }


def test_a_kepler_wheel_is_bound_by_its_last_driver() -> None:
    found = only(cuda="11.8", sass=("sm_35",))
    assert found.properties == {"nvidia": {"cuda_version_lower_bound": ["11.0"], "cuda_version_upper_bound": ["11.5"]}}
    assert "sm_35" in found.note


def test_old_and_new_code_in_one_wheel_are_two_variants() -> None:
    new, old = variants_of(row(cuda="11.8", sass=("sm_35", "sm_90")), FACTS)
    assert (new.label, old.label) == ("cu118_90", "cu118_35")
    assert new.properties["nvidia"]["sm_arch"] == ["90_real"]
    assert "sm_arch" not in old.properties["nvidia"]


@pytest.mark.parametrize(
    "more",
    [
        {"inspected": False},
        {"gfx": ("gfx906",), "rocm": "6.2"},
        {"sass": ("sm_61",)},
        {"sass": ("sm_61",), "cuda": "99.0"},
    ],
)
def test_what_cannot_be_said_is_not_said(more: dict[str, object]) -> None:
    assert variants_of(row(**more), FACTS) == ()


def test_long_lists_get_short_labels_that_differ() -> None:
    many = tuple(f"sm_{n}" for n in (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90))
    one, other = only(cuda="12.6", sass=many), only(cuda="12.6", sass=many[:2] + many[3:])
    assert one.label != other.label
    assert max(len(one.label), len(other.label)) <= MAX_LABEL
    assert set(one.label) <= set("0123456789abcdefghijklmnopqrstuvwxyz_.")


def test_names_lose_their_local_version() -> None:
    plain = "torch-2.6.0+cu118-cp311-cp311-linux_x86_64.whl"
    assert variant_file(plain, "cu118_61") == "torch-2.6.0-cp311-cp311-linux_x86_64-cu118_61.whl"
    assert variant_file(plain, "") == "torch-2.6.0-cp311-cp311-linux_x86_64.whl"
    with pytest.raises(BadInput, match="build tag"):
        variant_file("torch-2.6.0-1-cp311-cp311-linux_x86_64.whl", "x")


def test_a_variant_wheel_holds_the_same_files_and_one_more(tmp_path: Path) -> None:
    plain = make_wheel(tmp_path, "tiny", "1.0+cu118", files={"tiny/a.bin": b"\0" * 9000, "tiny/__init__.py": b""})
    target = tmp_path / "out" / "tiny-1.0-py3-none-any-x.whl"
    told = write_variant(plain, target, Variant("x", {"nvidia": {"sm_arch": ["61_real"]}}), {})
    assert b"Version: 1.0\n" in told
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(target) as new:
        assert new.testzip() is None
        assert new.read("tiny/a.bin") == old.read("tiny/a.bin")
        said = json.loads(new.read("tiny-1.0.dist-info/variant.json"))
        names = set(new.namelist())
        assert {name.replace("-1.0+cu118.", "-1.0.") for name in old.namelist()} | {
            "tiny-1.0.dist-info/variant.json"
        } == names
    assert said["variants"] == {"x": {"nvidia": {"sm_arch": ["61_real"]}}}
    assert list(tmp_path.glob("out/.*")) == []


def test_a_damaged_wheel_leaves_nothing(tmp_path: Path) -> None:
    plain = make_wheel(tmp_path, "tiny", "1.0")
    plain.write_bytes(plain.read_bytes()[:-40])
    with pytest.raises(zipfile.BadZipFile):
        write_variant(plain, tmp_path / "out" / "x.whl", Variant("x", {}), {})
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("cards", "driver", "variables"),
    [
        (["GTX 1080"], "580.95", {"SM_ARCH": "6.1", "CUDA_DRIVER_VERSION": "13.0"}),
        (["GTX 1080", "RTX 4090"], "525.60.13", {"SM_ARCH": "6.1", "CUDA_DRIVER_VERSION": "12.0"}),
        (["Tesla K40c"], "470.256.02", {"SM_ARCH": "3.5", "CUDA_DRIVER_VERSION": "11.4"}),
        (["RTX 4090"], None, {"SM_ARCH": "8.9"}),
        (["none"], None, {}),
    ],
)
def test_the_variables_come_from_the_machine(cards: list[str], driver: str | None, variables: dict[str, str]) -> None:
    machine = machine_from_flags(gpu=cards, os="linux", driver=driver)
    found = variant_environment(machine)
    assert found.variables == {f"NV_VARIANT_PROVIDER_FORCE_{name}": value for name, value in variables.items()}
    assert bool(found.notes) is (len(cards) > 1 or driver is None or "K40c" in cards[0])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("uv 0.12.0", True),
        ("uv 0.13.5 (x86_64)", True),
        ("uv 0.13.6", False),
        ("uv", False),
        ("uv new", False),
        ("", False),
    ],
)
def test_a_uv_that_is_too_old_to_choose_is_named(said: str, told: bool) -> None:
    class UvHost(BareHost):
        def run(self, argv: Sequence[str], **_: object) -> Completed:
            return Completed(argv=tuple(argv), code=0, out=said)

    notes = _old_uv(UvHost())
    assert [said.split()[1] in note for note in notes] == [True] * told


def test_another_card_may_decide() -> None:
    machine = machine_from_flags(gpu=["GTX 1080", "RTX 4090"], os="linux", driver="580.95")
    assert variant_environment(machine, gpu="RTX 4090").variables["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] == "8.9"


def test_the_provider_names_what_runs() -> None:
    machine = machine_from_flags(gpu=["GTX 1080"], cpu="ivybridge", os="linux", arch="x86_64")
    found = {config.name: config.values for config in supported_by(machine)}
    assert found["sm"] == ["61", "60"]
    assert found["x86_64_level"] == ["v2", "v1"]
    assert "avx" in found
    assert "avx2" not in found
    assert "gfx" not in found


def test_every_supported_value_is_a_known_one() -> None:
    known = {config.name: set(config.values) for config in RekindlePlugin.get_all_configs()}
    machine = machine_from_flags(gpu=["RTX 4090", "Tesla K40c"], cpu="skylake_avx512", os="linux", arch="x86_64")
    for config in supported_by(machine):
        assert set(config.values) <= known[config.name]


def test_variantlib_takes_the_provider() -> None:
    validators = pytest.importorskip("variantlib.protocols")
    assert callable(RekindlePlugin.get_supported_configs)
    for config in RekindlePlugin.get_all_configs():
        assert isinstance(config, validators.VariantFeatureConfigType)


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_a_wheel_is_bound_by_the_drivers_of_its_own_system(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr("rekindle.index.variants.least_cuda", lambda cuda, side, facts: f"12.0 on {side}")
    found = only(cuda="12.6", sass=("sm_86",), systems=(system,))
    assert found.properties["nvidia"]["cuda_version_lower_bound"] == [f"12.0 on {system}"]
