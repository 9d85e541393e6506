"""A Windows for batch files: wine's cmd, and stand-in tools on the path that note how they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rekindle.model.plan import Plan
from rekindle.scripts.formats import encode, render
from rekindle.scripts.recipe import make_recipe

PREFIX = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci" / "wine"

NOTE = '@echo off\r\n>>"%CALLS%" echo {name} %*\r\n'
# A plausible world: each tool notes its call and does the least that the script looks at afterwards.
TOOLS = {
    "python": (
        'if "%1"=="--version" echo Python 3.10.14\r\n'
        'if "%~2"=="venv" mkdir "%~3\\Scripts" 2>nul\r\n'
        'if "%2 %3"=="pip wheel" mkdir "%WORK%\\wheels" 2>nul & type nul >"%WORK%\\wheels\\torch.whl"\r\n'
    ),
    # Batch arguments also end at "=", so words are looked at one by one.
    "git": (
        'if "%1 %3"=="apply --reverse" exit /b 1\r\n:next\r\nif "%~1"=="" goto :done\r\n'
        'if "%~1"=="clone" set "CLONE=1"\r\nset "LAST=%~1"\r\nshift\r\ngoto :next\r\n:done\r\n'
        'if defined CLONE mkdir "%LAST%" & type nul >"%LAST%\\setup.py"\r\n'
    ),
    "nvcc": "echo nvcc: NVIDIA compiler\r\necho Cuda compilation tools, release 11.4, V11.4.152\r\n",
    "powershell": "",
}


def measuring(memory: int, disk: int) -> str:
    """A PowerShell that knows two answers."""
    return f'if "%WHAT%"=="memory" echo {memory}\r\nif "%WHAT%"=="disk" echo {disk}\r\n'


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.studio = folder.parent / "Visual Studio" / "VC" / "Auxiliary" / "Build"
        self.calls = folder / "calls.txt"
        self.tools.mkdir(parents=True)
        self.studio.mkdir(parents=True)
        for name, body in TOOLS.items():
            self.tool(name, body)
        self.tool("powershell", measuring(64, 5000))
        self.tool("reg", "echo     LongPathsEnabled    REG_DWORD    0x1\r\n")
        self.tool("vswhere", f"echo {windows(folder.parent / 'Visual Studio')}\r\n")
        (folder.parent / "Visual Studio" / "VC" / "Tools" / "MSVC" / "14.29.30133").mkdir(parents=True)
        self.cuda = folder / "cuda toolkit"
        (self.cuda / "include").mkdir(parents=True)
        self.cudnn(8)
        (self.studio / "vcvarsall.bat").write_bytes((NOTE.format(name="vcvarsall") + "exit /b 0\r\n").encode())

    def cudnn(self, major: int) -> None:
        text = f"#define CUDNN_MAJOR {major}\r\n#define CUDNN_MINOR 7\r\n"
        (self.cuda / "include" / "cudnn_version.h").write_text(text)

    def tool(self, name: str, body: str) -> None:
        (self.tools / f"{name}.bat").write_bytes((NOTE.format(name=name) + body + "exit /b 0\r\n").encode())

    def run(self, plan: Plan, **extra: str) -> tuple[int, str, list[str]]:
        script = self.folder / "build.bat"
        patches = {name: b"--- a/x\n+++ b/x\n" for name in (plan.build.patches if plan.build else ())}
        script.write_bytes(encode(render(make_recipe(plan, patches), "bat"), "bat"))
        return self.run_file(script, **extra)

    def run_file(self, script: Path, **extra: str) -> tuple[int, str, list[str]]:
        self.calls.unlink(missing_ok=True)
        env = {
            "HOME": os.environ.get("HOME", "/root"), "PATH": os.environ["PATH"], "WINEPREFIX": str(PREFIX),
            "WINEDEBUG": "-all", "WINEPATH": windows(self.tools), "CALLS": windows(self.calls),
            "WORK": windows(self.folder / "work space"), "VSWHERE": windows(self.tools / "vswhere.bat"),
            "PYTHON": "python", "CUDA_PATH": windows(self.cuda), "LC_ALL": "C.UTF-8", **extra,
        }  # fmt: skip
        PREFIX.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["wine", "cmd", "/c", script.name],
            cwd=self.folder,
            env=env,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        text = (done.stdout + done.stderr).decode("utf-8", "replace").replace("\r", "")
        calls = self.calls.read_text(errors="replace").splitlines() if self.calls.exists() else []
        return done.returncode, text, [call.strip() for call in calls]

    @property
    def log(self) -> str:
        return (self.folder / "work space" / "build.log").read_text(errors="replace")


def windows(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")
