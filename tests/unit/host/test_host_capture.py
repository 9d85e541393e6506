"""Captures: what was written is what is read, and a recorded machine answers like the real one."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.host.capture import Record, RecordedHost, join_records, read_capture, render_capture
from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey
from rekindle.model.toml import render_table

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
plain = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), texts)


@given(st.dictionaries(texts, st.one_of(plain, st.lists(plain, max_size=4), st.dictionaries(texts, plain, max_size=3))))
def test_every_table_reads_back(values: dict[str, object]) -> None:
    assert tomllib.loads(render_table(values)) == values


def record() -> Record:
    return Record(
        system="linux",
        machine="x86_64",
        about={"kind": "recorded", "title": "a 'quoted' title"},
        runs=[
            Completed(argv=("gcc", "--version"), code=0, out="gcc (Debian) 12.2.0\n'''odd'''\n"),
            Completed(argv=("nvidia-smi",), code=None, err="", timed_out=True),
        ],
        files={"/etc/os-release": b"ID=debian\n", "/odd": b"\xff\x00\xfe", "/none": None, "/crlf": b"a\r\nb'"},
        paths={"/usr/bin/gcc-12": None},
        programs={"gcc": ("/usr/bin/gcc", "/opt/bin/gcc"), "clang": ()},
        links={"/usr/bin/gcc": "/usr/bin/gcc-12"},
        env={"HOME": "/home/user"},
        disks={"/home/user": Disk(total=10, free=5), "/gone": None},
        registry={r"HKLM\SOFTWARE\X": RegistryKey(values={"": "C:\\x", "n": 3}, keys=("a", "b")), "HKCU\\Y": None},
        pythons={"/usr/bin/python3": {"version": "3.11.2", "packages": {"torch": {"version": "2.0"}}, "none": None}},
        torches={"/usr/bin/python3": {"works": False, "error": "OSError: x"}},
        memory=Memory(total=3, swap=0),
        cpuid=Cpuid(leaves={(0, 0): (1, 2, 3, 4), (7, 1): (0, 0, 0, 4294967295)}, xcr0=7),
        nvml={"driver": "580.1", "devices": [{"name": "X", "memory": 5}]},
    )


def test_a_capture_reads_back_whole(tmp_path: Path) -> None:
    before = record()
    (tmp_path / "capture.toml").write_text(render_capture(before), encoding="utf-8")
    after = read_capture(tmp_path)
    for name in ("system", "machine", "about", "runs", "paths", "links", "env", "memory", "cpuid", "nvml", "torches"):
        assert getattr(after, name) == getattr(before, name), name
    # What was asked and not there is simply not there.
    assert after.files == {path: raw for path, raw in before.files.items() if raw is not None}
    assert after.programs == {"gcc": ("/usr/bin/gcc", "/opt/bin/gcc")}
    assert after.disks == {"/home/user": Disk(total=10, free=5)}
    assert set(after.registry) == {r"HKLM\SOFTWARE\X"}
    assert render_capture(after) == render_capture(read_capture(tmp_path))


def test_long_texts_stay_readable() -> None:
    assert "\ngcc (Debian)" in render_capture(
        Record(machine="x", runs=[Completed(argv=("a",), code=0, out="gcc (Debian)\n2\n")])
    )


def test_a_recorded_machine_answers() -> None:
    host = RecordedHost(record())
    assert host.run(["/usr/bin/gcc", "--version"]).out.startswith("gcc (Debian)")
    assert host.run(["nvidia-smi"]).timed_out
    assert host.run(["rm", "-rf"]).code is None
    assert host.read("/etc/os-release", limit=3) == b"ID="
    assert host.read("/none") is None and host.read("/nowhere") is None
    assert host.glob("/usr/bin/gcc*") == ("/usr/bin/gcc", "/usr/bin/gcc-12")
    assert host.glob("/usr/*/gcc") == ("/usr/bin/gcc",)
    assert host.glob("/usr") == ("/usr",)
    assert host.glob("/*") == ("/crlf", "/etc", "/odd", "/opt", "/usr") or "/none" in host.glob("/*")
    assert host.which("gcc") == "/usr/bin/gcc" and host.which("clang") is None
    assert host.disk("/home/user/deep/down") == Disk(total=10, free=5)


def test_a_program_answers_wherever_it_lies_but_for_itself_alone() -> None:
    host = RecordedHost(Record(runs=[Completed(argv=(r"C:\CUDA\bin\nvcc.exe", "--version"), code=0, out="12.4")]))
    for name in ("nvcc", "/usr/local/cuda/bin/nvcc", r"D:\nvcc.exe"):
        assert host.run([name, "--version"]).out == "12.4", name
    assert host.run(["cl", "--version"]).code is None and host.run(["nvcc", "-V"]).code is None


def test_windows_paths_ignore_case_and_slashes() -> None:
    host = RecordedHost(Record(system="windows", machine="x86_64", files={r"C:\Program Files\X\a.txt": b"1"}))
    assert host.read("c:/program files/x/A.TXT") == b"1"
    assert host.glob(r"C:\Program Files\*\a.txt") == (r"C:\Program Files\X\a.txt",)


def test_joining_keeps_each_question_once() -> None:
    joined = join_records([record(), record()])
    assert len(joined.runs) == 2 and joined.memory == record().memory


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("bad.toml", "not toml at all [", "no capture"),
        ("bad.toml", "schema = 9\nmachine = 'x'\n", "newer Rekindle"),
        ("bad.toml", "schema = 1\n", "which machine"),
        ("bad.toml", "machine = 'x'\n[[file]]\npath = '/a'\nfrom = '../../etc/passwd'\n", "beside"),
        ("bad.toml", "machine = 'x'\n[[file]]\npath = '/a'\nbase64 = 'aGFs*bG8='\n", "base64"),
        ("bad.toml", "machine = 'x'\n[[run]]\ncode = 0\n", "argv"),
    ],
)
def test_a_broken_capture_is_one_sentence(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=reason):
        read_capture(tmp_path)


def test_an_empty_directory_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no capture"):
        read_capture(tmp_path)


def test_a_star_matches_no_hidden_name_on_a_recorded_machine_either() -> None:
    host = RecordedHost(Record(paths={"/home/u/.conda": None, "/home/u/conda": None, "/home/u/.cache": None}))
    assert host.glob("/home/u/*") == ("/home/u/conda",)
    assert host.glob("/home/u/.c*") == ("/home/u/.cache", "/home/u/.conda")


def test_a_file_beside_a_capture_is_read_and_none_elsewhere(tmp_path: Path) -> None:
    text = 'machine = "x86_64"\n[[file]]\npath = "/proc/cpuinfo"\nfrom = "cpuinfo.txt"\n'
    (tmp_path / "capture.toml").write_text(text)
    (tmp_path / "cpuinfo.txt").write_bytes(b"flags : avx\xff")
    assert read_capture(tmp_path).files == {"/proc/cpuinfo": b"flags : avx\xff"}
    (tmp_path / "capture.toml").write_text(text.replace("cpuinfo.txt", "../cpuinfo.txt"))
    with pytest.raises(BadInput, match="does not lie beside the capture"):
        read_capture(tmp_path)
