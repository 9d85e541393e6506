"""A place that cannot be written is the user's to fix: exit 2 and one line, in every verb that writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from binaries import make_elf, make_entry, make_fatbin
from rekindle import api
from rekindle.cli.main import main
from rekindle.model.document import encode
from tiny_wheels import make_wheel

# {no}: a path under a regular file, which nobody can write, not even root.
CASES = {
    "bundle": "bundle {wheel} --out {no}",
    "demo": "demo --workspace {no}",
    "doctor capture": "doctor --capture {no} --replay {capture}",
    "doctor": "doctor --save {no} --replay {capture}",
    "explain": "explain {log} --save-report {no}",
    "export": "export sh --plan {plan} --out {no}",
    "index add": "index add {wheel} --root {no}",
    "index build": "index build --root {no}",
    "inspect": "inspect {wheel} --html {no}",
    "source fetch": "source fetch {no} --from dir --release 2.6.0",
    "up": "up --yes --workspace {no}",
    "verify junit": "verify --events {events} --junit {no}",
    "verify save": "verify --events {events} --save {no}",
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_text("")
    (tmp_path / "build.log").write_text("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n")
    (tmp_path / "events.jsonl").write_text('{"event": "done"}\n')
    plan = api.plan(api.machine_from_flags(gpu=["RTX 3060"], os="linux", glibc="2.35", python="3.12", driver="570.86"))
    (tmp_path / "plan.json").write_bytes(encode(plan))
    library = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 50)])}, soname="libtorch_cuda.so")
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64", files={"torch/lib/a.so": library})
    captures = Path(__file__).parents[2] / "machines"
    return {
        "no": str(tmp_path / "file" / "inside"),
        "wheel": str(wheel),
        "log": str(tmp_path / "build.log"),
        "plan": str(tmp_path / "plan.json"),
        "events": str(tmp_path / "events.jsonl"),
        "capture": str(next(path for path in sorted(captures.iterdir()) if path.is_dir())),
    }


@pytest.mark.parametrize("case", sorted(CASES))
def test_exit_2_and_one_line(case: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    argv = [word.format(**places) for word in CASES[case].split()]
    code = main([*argv, "-q"])
    err = capsys.readouterr().err
    assert code == 2, err
    assert str(Path(places["no"]).parent) in err  # it is that place, not something else that was wrong
    assert "Traceback" not in err and err.count("\n") <= 3 and "rekindle: " in err
