"""The first real error among the noise, and the compilers that were only killed for memory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from failed_builds import failed
from rekindle.build import failure as account
from rekindle.build.failure import (
    BuildLog,
    _error_message,
    account_for,
    failed_blocks,
    first_error,
    killed_for_memory,
    without_times,
)

NINJA = """$ cd /t && python setup.py bdist_wheel
-- Performing Test HAS_WERROR_RETURN_TYPE - Success
[1/9] Building CXX object fine.o
a.cpp:1: warning: unused error: variable
FAILED: [code=1] c10/a.cpp.o
/usr/bin/c++ -Werror -o c10/a.cpp.o -c /t/a.cpp
In file included from /t/a.cpp:3:
/t/a.h:15:10: fatal error: ActivityType.h: No such file or directory
   15 | #include <ActivityType.h>
compilation terminated.
[2/9] Building CXX object also_fine.o
FAILED: [code=1] late.o
/usr/bin/c++ -o late.o
late.cpp:1:1: error: something else
ninja: build stopped: subcommand failed.
""".splitlines()

OOM = """$ cd /t && python setup.py bdist_wheel
FAILED: [code=1] big.o
/usr/bin/c++ -o big.o
c++: fatal error: Killed signal terminated program cc1plus
compilation terminated.
ninja: build stopped: subcommand failed.
""".splitlines()


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with contextlib.closing(BuildLog(tmp_path / "b.log")) as log:
        yield log


def fill(log: BuildLog, lines: list[str]) -> BuildLog:
    for line in lines:
        log.write(line)
    return log


def test_the_first_error_with_its_command(log: BuildLog) -> None:
    failure = failed(account_for("torch", "compile", ["python"], 1, fill(log, NINJA)))
    assert "ActivityType.h: No such file" in failure.message
    assert failure.command == "/usr/bin/c++ -Werror -o c10/a.cpp.o -c /t/a.cpp"
    line = log.path.read_text().splitlines()[(failure.first_line or 0) - 1]
    assert without_times(line) == failure.message
    assert "something else" in Path(failure.failed_log or "").read_text()


def test_cmake_errors_without_ninja(log: BuildLog) -> None:
    lines = ["-- Performing Test HAS_WERROR", "CMake Error at x/CMakeLists.txt:1 (cmake_minimum_required):", "  gone"]
    failure = failed(account_for("torch", "configure", ["cmake"], 1, fill(log, lines)))
    assert failure.message.startswith("CMake Error at x")
    assert "  gone" in failure.error


def test_silence_is_told_too(log: BuildLog) -> None:
    assert failed(account_for("torch", "compile", [], 3, log)).message


def test_killed_compilers_are_found(log: BuildLog) -> None:
    assert killed_for_memory(fill(log, OOM), []) == ["big.o"]


def test_a_real_error_beside_a_killed_one_is_no_case_for_a_retry(log: BuildLog) -> None:
    assert killed_for_memory(fill(log, OOM[:-1] + NINJA[4:]), []) == []


def test_ours_and_exit_codes(log: BuildLog) -> None:
    lines = ["FAILED: [code=137] x.o", "cc -o x.o", "FAILED: [code=1] y.o", "cc -o y.o"]
    assert killed_for_memory(fill(log, lines), ["y.o"]) == ["x.o", "y.o"]


def test_only_the_last_command_counts(log: BuildLog) -> None:
    assert killed_for_memory(fill(log, [*OOM, "$ cd /t && again", "FAILED: z.o", "cc", "z: error: no"]), []) == []


def test_noise_is_no_error() -> None:
    assert first_error(["c++ -Werror=format x", "x: warning: error: in a string", "0 errors generated"]) is None
    assert first_error(["ok", "ValueError: x"]) == 1
    gcc = "/t/a.cpp:47:1: error: control reaches end of non-void function [-Werror=return-type]"
    assert first_error(["/t/a.cpp: In function 'f':", gcc]) == 1
    assert first_error([r"C:\t\a.cpp(47): error C2065: 'x': undeclared identifier"]) == 0


def test_blocks_end_at_the_next_status() -> None:
    assert [len(command.lines) for command in failed_blocks(NINJA)] == [6, 3]


CONFIGURE = """\
-- MIOpen not found
-- Could NOT find CUDA: Found unsuitable version
CMake Error at cmake/Dependencies.cmake:303 (message):
  pocketfft directory not found, expected
  /tree/third_party/pocketfft/

  Second paragraph.
Call Stack (most recent call first):
  CMakeLists.txt:719 (include)

-- Configuring incomplete, errors occurred!
""".splitlines()


def test_what_cmake_only_tells_is_no_error_and_a_message_of_several_lines_is_one() -> None:
    at = first_error(CONFIGURE)
    assert at == 2
    said = _error_message(CONFIGURE, at)
    assert "pocketfft directory not found, expected /tree/third_party/pocketfft/" in said
    assert "Call Stack" not in said
    assert first_error(["-- Looking for foo - not found", "-- MKL not found"]) is None
    assert first_error(["ok", "sh: 1: flatc: not found"]) == 1


NOTFOUND = """$ cd /t && python setup.py build --cmake-only --cmake
-- Found HIP: /usr (found suitable version "6.4.43484-9999", minimum required is "1.0")

***** ROCm version from hip_version.h ****

ROCM_VERSION_DEV: 6.4.0
grep: /proc/driver/version: No such file or directory
rocm_smi.h could not be found, going on
-- Configuring done (126.1s)
CMake Error: The following variables are used in this project, but they are set to NOTFOUND.
Please set them or make sure they are set and tested correctly in the CMake files:
ROCM_ROCTX_LIB
    linked by target "torch_python" in directory /t/torch
    linked by target "other" in directory /t/torch
SNAPPY_LIBRARY (ADVANCED)
    linked by target "torch_python" in directory /t/torch

-- Generating done (2.5s)
CMake Generate step failed.  Build files cannot be regenerated correctly.
""".splitlines()


def test_what_cmake_did_not_find_is_the_first_error_and_is_named(log: BuildLog) -> None:
    failure = failed(account_for("torch", "configure", ["python", "setup.py"], 1, fill(log, NOTFOUND)))
    said = "CMake Error: The following variables are used in this project, but they are set to NOTFOUND"
    assert failure.message == f"{said}: ROCM_ROCTX_LIB, SNAPPY_LIBRARY"
    line = without_times(log.path.read_text().splitlines()[(failure.first_line or 0) - 1])
    assert line == f"{said}."
    assert "ROCM_ROCTX_LIB" in failure.error


def test_headlines_in_stars_are_no_errors_but_what_make_says_is() -> None:
    assert first_error(["***** Summary *****", "*** note ***"]) is None
    assert first_error(["ok", "make[1]: *** [Makefile:3: all] Error 2"]) == 1
    assert first_error(["Makefile:7: *** missing separator.  Stop."]) == 0


def test_only_what_cmake_says_itself_beats_an_earlier_word_of_doubt() -> None:
    doubt = "cat: /etc/x: No such file or directory"
    assert first_error(["ok", doubt, "more"]) == 1, "where nothing better is said it is the error"
    assert first_error([doubt, "a.cpp:1:1: error: something"]) == 0
    assert first_error([doubt, "cp: header not found", "CMake Error at CMakeLists.txt:3 (message):"]) == 2
    assert first_error(["ModuleNotFoundError: yaml", "CMake Error at codegen.cmake:3:"]) == 0, "that is the cause"


def test_variables_without_a_name_are_said_to_be_that() -> None:
    line = "CMake Error: The following variables are used in this project, but they are set to NOTFOUND."
    assert _error_message([line], 0).endswith("set to NOTFOUND: not named")


def test_of_a_killed_command_its_first_output_is_made_again(log: BuildLog) -> None:
    assert killed_for_memory(fill(log, ["FAILED: [code=137] x.o x.d", "cc -o x.o"]), []) == ["x.o"]


def test_a_command_that_printed_without_end_is_told_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "MAX_LINES", 3)
    [block] = failed_blocks(["FAILED: a.o", "cc a.c", "one", "two"])
    assert block.lines == ["FAILED: a.o", "cc a.c", "one"]


def test_a_log_goes_on_in_a_folder_that_is_there(tmp_path: Path) -> None:
    for name in ("one.log", "two.log"):
        with contextlib.closing(BuildLog(tmp_path / "deep" / "logs" / name)) as log:
            log.write("hello")
        assert without_times((tmp_path / "deep/logs" / name).read_text().splitlines()[-1]) == "hello"


@pytest.mark.parametrize("line", ["[1234567890] x", "a 34567890] x", "[2/9] fine", "", "["])
def test_only_a_time_of_ours_is_taken_off_a_line(line: str) -> None:
    assert without_times(line) == line
    assert without_times(f"[     1.25] {line}") == line


def test_where_no_line_is_an_error_the_end_is_told(log: BuildLog) -> None:
    fill(log, ["$ cd /t && make", *(f"line {number}" for number in range(30))])
    failure = failed(account_for("torch", "compile", ["make", "-j2"], 2, log))
    assert (failure.message, failure.command) == ("line 29", "make -j2")
    assert failure.error == tuple(f"line {number}" for number in range(10, 30)), "twenty lines"
    assert without_times(log.path.read_text().splitlines()[(failure.first_line or 0) - 1]) == "line 29"
    assert failure.failed_log is None


def test_a_log_without_anything_is_told_by_its_first_line(log: BuildLog) -> None:
    failure = failed(account_for("torch", "compile", [], 3, log))
    assert failure.first_line == 1 and failure.command is None and failure.message.startswith("rekindle build, ")


def test_a_command_that_said_nothing_that_is_an_error_is_told_by_ninjas_line(log: BuildLog) -> None:
    said = [f"odd {number}" for number in range(50)]
    failure = failed(account_for("torch", "compile", ["x"], 1, fill(log, ["FAILED: a.o", "cc a.c", *said])))
    assert (failure.message, failure.command) == ("FAILED: a.o", "cc a.c")
    assert failure.error == tuple(said[:40]), "its first forty lines"
    assert without_times(log.path.read_text().splitlines()[(failure.first_line or 0) - 1]) == "FAILED: a.o"


def test_a_failure_whose_command_is_not_told_names_what_was_run(log: BuildLog) -> None:
    failure = failed(account_for("torch", "compile", ["ninja", "-j2"], 1, fill(log, ["FAILED: a.o"])))
    assert (failure.command, failure.error) == ("ninja -j2", ("FAILED: a.o",))
    told = failed(account_for("torch", "compile", ["ninja"], 1, fill(log, ["$ cd /t", "FAILED: a.o", "cc a.c"])))
    assert (told.command, told.message) == ("cc a.c", "FAILED: a.o")


def test_an_error_stands_between_two_lines_before_it_and_forty_from_it_on(log: BuildLog) -> None:
    lines = [*(f"before {n}" for n in range(5)), "a.cpp:1:1: error: no", *(f"after {n}" for n in range(50))]
    failure = failed(account_for("torch", "compile", ["x"], 1, fill(log, ["FAILED: a.o", "cc a.c", *lines])))
    assert failure.error == ("before 3", "before 4", "a.cpp:1:1: error: no", *(f"after {n}" for n in range(39)))
    assert without_times(log.path.read_text().splitlines()[(failure.first_line or 0) - 1]) == "a.cpp:1:1: error: no"
    early = failed(account_for("torch", "compile", ["x"], 1, fill(log, ["$ cd /t && x", "a.cpp:1:1: error: one"])))
    assert early.error == ("$ cd /t && x", "a.cpp:1:1: error: one"), "and no line of another command"


def test_variables_are_named_from_the_line_after_the_message_on() -> None:
    line = "CMake Error: The following variables are used in this project, but they are set to NOTFOUND."
    lines = ["done", line, "A_LIBRARY", "    linked by target", "B_LIBRARY", "", "C_LIBRARY"]
    assert _error_message(lines, 1).endswith("set to NOTFOUND: A_LIBRARY, B_LIBRARY")


CMAKE = "CMake Error at CMakeLists.txt:3 (message):"


def test_a_message_of_cmake_ends_with_its_first_sentence_and_its_paragraph() -> None:
    assert _error_message([CMAKE, "  One.", "  Two.", "", "  Three."], 0) == f"{CMAKE} One. Two."
    assert (
        _error_message([CMAKE, "  One.", "  and", "", "  /a/path", "", "  more"], 0) == f"{CMAKE} One. and /a/path more"
    )
    assert _error_message([CMAKE, "  One", "Call Stack (most recent call first):", "  x"], 0) == f"{CMAKE} One"
    assert _error_message([CMAKE.removesuffix(":"), "  One"], 0) == CMAKE.removesuffix(":"), (
        "it says that nothing follows"
    )


def test_a_message_of_cmake_has_eleven_lines_at_most() -> None:
    words = [f"  w{number}" for number in range(15)]
    assert _error_message([CMAKE, *words], 0) == f"{CMAKE} {' '.join(f'w{number}' for number in range(11))}"


def test_a_message_has_three_hundred_letters_at_most(log: BuildLog) -> None:
    def told(length: int) -> str:
        return failed(account_for("torch", "compile", ["x"], 1, fill(log, ["$ cd /t", "y" * length]))).message

    assert told(300) == "y" * 300
    assert told(301) == "y" * 297 + "..."
