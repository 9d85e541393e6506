"""Proves on a real NVIDIA card that trimmed device code still runs, and that the trimming really took code out.

Run: python tools/prove_trim_on_gpu.py [PYTHON]      PYTHON has a CUDA torch; default: this one

A copy of the installed torch is trimmed for the card that is present and must compute the same as before. A second
copy is trimmed for a card that is not present and must fail with "no kernel image": otherwise nothing was proven.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from rekindle.bundle.trim import trim
from rekindle.compat.toolkit import sass_runs_on
from rekindle.model.arch import Sm, parse_sm

WHERE = "import json,torch;c=torch.cuda.get_device_capability();print(json.dumps([torch.__path__[0],*c]))"
SMOKE = (
    "import torch;torch.manual_seed(0);a=torch.randn(512,512,device='cuda');b=torch.relu(a@a.T).cumsum(0).softmax(1);"
    "c=torch.nn.functional.conv2d(a.view(1,1,512,512),torch.ones(1,1,3,3,device='cuda'));"
    "d=torch.linalg.inv(a+512*torch.eye(512,device='cuda'));s=torch.sort(a.flatten()).values;"
    "print(float(b.sum()),float(c.mean()),float(d.trace()),float(s[1000]))"
)


def copy_torch(package: Path, target: Path) -> None:
    """Libraries are copied (they will change), everything else is linked."""
    shutil.copytree(package, target / "torch", symlinks=True, ignore=shutil.ignore_patterns("lib", "*.pyc"))
    (target / "torch" / "lib").mkdir()
    for file in (package / "lib").iterdir():
        if file.is_file():
            shutil.copyfile(file, target / "torch" / "lib" / file.name)


def run(python: str, code: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**__import__("os").environ, **({"PYTHONPATH": str(path)} if path else {})}
    return subprocess.run([python, "-c", code], capture_output=True, text=True, env=env, timeout=500)


def trimmed(python: str, package: Path, card: Sm, folder: Path) -> subprocess.CompletedProcess[str]:
    copy_torch(package, folder)
    total = 0
    for file in sorted((folder / "torch" / "lib").iterdir()):
        outcome = trim(file, [card], file.name)
        if outcome.bytes:
            total += outcome.bytes
            print(f"  {file.name}: {outcome.bytes / 1e6:.0f} MB of {', '.join(outcome.archs)}")
    print(f"  {total / 1e6:.0f} MB of device code taken out for {card}")
    return run(python, SMOKE, folder)


def main() -> int:
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    found = run(python, WHERE)
    if found.returncode:
        print(f"no CUDA torch with a card: {found.stderr.strip().splitlines()[-1:]}")
        return 2
    package, major, minor = json.loads(found.stdout)
    card = Sm(major, minor)
    before = run(python, SMOKE)
    print(f"{card} before: {before.stdout.strip()}")
    with tempfile.TemporaryDirectory() as name:
        kept = trimmed(python, Path(package), card, Path(name))
        print(f"{card} after: {kept.stdout.strip() or kept.stderr.strip()[-400:]}")
    other = next(sm for sm in map(parse_sm, ("sm_75", "sm_86", "sm_90")) if not sass_runs_on(sm, card))
    with tempfile.TemporaryDirectory() as name:
        control = trimmed(python, Path(package), other, Path(name))
        print(f"control, trimmed for {other}: exit {control.returncode}, {control.stderr.strip()[-200:]}")
    good = kept.returncode == 0 and kept.stdout == before.stdout
    proven = control.returncode != 0 and "no kernel image" in control.stderr
    print("PROVEN" if good and proven else "NOT PROVEN")
    return 0 if good and proven else 1


if __name__ == "__main__":
    sys.exit(main())
