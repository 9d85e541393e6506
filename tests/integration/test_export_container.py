"""An exported Dockerfile, built and run for real: Debian 13's buildah, the miniature *spark*, no registry."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import container_builder as builder
import needs
from rekindle import api
from rekindle.model.machine import cpu_arch
from rekindle.model.plan import BuildRecipe, Plan, PlannedFor
from rekindle.spark.unpack import tree_version, unpack

pytestmark = [
    pytest.mark.integration,
    needs.tool("debootstrap", "unshare", "chroot"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting needs root"),
    pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="a root and packages, minutes: REKINDLE_LONG=1"),
]


@pytest.mark.parametrize("apart", [False, True], ids=["one-file", "with-a-folder"])
def test_the_image_is_built_and_runs(apart: bool, tmp_path: Path) -> None:
    builder.make_root()
    recipe = BuildRecipe(source="spark", env={"USE_CUDA": "0"}, asserts={"USE_CUDA": "OFF"}, disk_gib=1, memory_gib=1,
                         patches=("cmake-4-policies", "setuptools-74-msvccompiler"))  # fmt: skip
    plan = Plan(answer="build", project="spark", torch=tree_version(), variant="cpu", python="3.13", build=recipe,
                os=PlannedFor(system="linux", arch=cpu_arch(platform.machine())))  # fmt: skip
    context = tmp_path / "context"
    unpack(context / "tree")
    written = api.export(plan, "dockerfile", out=context if apart else None).text
    assert (context / f"rekindle-spark-{tree_version()}-cpu/build.sh").exists() == apart
    lines = []
    for line in written.splitlines():
        # What no registry and no clone can give here: uv's image, and the tree of sources.
        if line.startswith("FROM ghcr.io/astral-sh/uv"):
            line = "FROM localhost/uv AS uv"
        elif line.startswith("COPY --from=uv "):
            line = "COPY --from=uv /uv /uv.real /usr/local/bin/"
        elif line.startswith("RUN uv python install"):
            lines += ["COPY --chown=builder tree /build/src", "ENV SOURCE=/build/src"]
        lines.append(line)
    (context / "Dockerfile").write_text("\n".join(lines) + "\n")
    _bring_uv(tmp_path)
    builder.build(tmp_path, "spark-built", 1500, stage="build")
    told = "cat /build/wheels/packages.txt; echo --; cat /build/wheels/libraries.txt"
    packages, _, libraries = builder.run(tmp_path, "spark-built", [["sh", "-c", told]], 300).partition("--\n")
    assert "libstdc++6" in packages.split() and "libstdc++.so.6 " in libraries, (packages, libraries)
    assert "libspark" not in libraries

    builder.build(tmp_path, "spark-run", 900)
    ask = "import os, spark; print('uid', os.getuid(), 'version', spark.__version__)"
    look = "command -v g++ || echo no compiler; ls /opt/torch/cache 2>/dev/null | wc -l"
    said = builder.run(tmp_path, "spark-run", [["python", "-c", ask], ["sh", "-c", look]], 300)
    assert f"uid 10001 version {tree_version()}" in said, said
    assert "no compiler\n0\n" in said, said


def _bring_uv(work: Path) -> None:
    folder = work / "uv"
    folder.mkdir()
    fetch = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        str(work),
        "uv",
    ]
    subprocess.run(fetch, check=True, timeout=300)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", next(work.glob("uv-*.whl")), work / "unpacked"], check=True)
    shutil.copy(next((work / "unpacked").glob("uv-*.data/scripts/uv")), folder / "uv.real")
    (folder / "uv").write_text(builder.STAND_IN)
    for path in folder.iterdir():
        path.chmod(0o755)
    shutil.copy(builder.CERTIFICATES, work / "certificates.crt")
