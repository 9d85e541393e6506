"""The same error, the same answer by every door: a file, a pipe, an argument, a watched command; in any framing."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle import api
from samples import load_samples

NO_TORCH = """Traceback (most recent call last):
  File "<string>", line 1, in <module>
ModuleNotFoundError: No module named 'torch'
"""
FRAMINGS: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "colours": lambda text: "".join(f"\x1b[31m{line}\x1b[0m\n" for line in text.splitlines()),
    "timestamps": lambda text: prefixed(text, "2026-05-04T10:11:12.1234567Z "),
    "buildkit": lambda text: prefixed(text, "#14 31.082 "),
    "compose": lambda text: prefixed(text, "painter-1  | "),
    "kubernetes": lambda text: prefixed(text, "2026-05-04T10:11:12.123456789Z stderr F "),
    "journal": lambda text: prefixed(text, "May 04 10:11:12 node7 trainer[4711]: "),
    "workers": lambda text: prefixed(text, "(EngineCore_DP0 pid=60) "),
    "noise": lambda text: f"{BEFORE}{text}\n{AFTER}",
}
BEFORE = "Loading settings from run.yaml\nfound 3 data sets, 1200 files\n"
AFTER = "closing the log\n"


def prefixed(text: str, prefix: str) -> str:
    """Every line as a container or a service carries it."""
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


# One sample of every cause; the doors themselves are tried with fewer, as each starts a process.
ONE_EACH = list({sample.cause: sample for sample in load_samples()}.values())
AT_THE_DOORS = ("torch-not-installed", "hip-kernel-image-invalid", "illegal-instruction-arm", "extension-abi-mismatch")


def first_id(text: str | bytes) -> str | None:
    matches = api.explain(text.encode() if isinstance(text, str) else text).matches
    return matches[0].id if matches else None


@pytest.mark.parametrize("framing", FRAMINGS)
def test_framing_changes_no_answer(framing: str) -> None:
    texts = [sample.text for sample in ONE_EACH]
    changed = [text for text in texts if first_id(FRAMINGS[framing](text)) != first_id(text)]
    assert not changed


@pytest.mark.parametrize("seed", range(3))
def test_framings_on_top_of_each_other_change_no_answer(seed: int) -> None:
    """A coloured line in a container whose service writes the journal, read on Windows: any two or three framings."""
    rng = random.Random(seed)
    changed = []
    for sample in rng.sample(ONE_EACH, 40):
        names = rng.sample(sorted(FRAMINGS), rng.choice((2, 3)))
        text = sample.text
        for name in names:
            text = FRAMINGS[name](text)
        if first_id(text) != first_id(sample.text):
            changed.append((sample.cause, names))
    assert not changed


def test_a_watched_command_is_answered_as_its_output_would_be() -> None:
    out = io.BytesIO()
    for text in (sample.text for sample in ONE_EACH if sample.cause in AT_THE_DOORS):
        program = f"import sys; sys.stderr.buffer.write({text.encode()!r}); sys.exit(1)"
        found = api.explain_command([sys.executable, "-S", "-c", program], out=out, err=out)
        assert (found.matches[0].id if found.matches else None) == first_id(text), text


@pytest.mark.parametrize("rule", AT_THE_DOORS)
def test_file_pipe_and_argument_agree(rule: str, tmp_path: Path) -> None:
    text = next(sample.text for sample in ONE_EACH if sample.cause == rule)
    log = tmp_path / "error.log"
    log.write_bytes(text.encode())
    explain = [sys.executable, "-m", "rekindle", "explain", "--json"]
    runs = [([*explain, str(log)], None), (explain, text.encode()), ([*explain, text], None)]
    answers = [subprocess.run(words, input=piped, capture_output=True, check=False).stdout for words, piped in runs]
    assert [json.loads(answer)["matches"][0]["id"] for answer in answers] == [rule] * 3


def test_python_without_torch_is_no_build_of_pip() -> None:
    """``python -c`` shows the frame ``<string>``, as a setup.py that pip runs does: alone it says nothing of pip."""
    assert first_id(NO_TORCH) == "torch-not-installed"
    ran_by_pip = NO_TORCH.replace('  File "<string>"', '    exec(code, locals())\n  File "<string>"')
    assert first_id(ran_by_pip) == "build-isolation-no-torch"
