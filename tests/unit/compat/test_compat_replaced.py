"""Who replaced a package: times, names and conditions at their edges."""

import pytest

from rekindle.compat.replaced import SAME_RUN_SECONDS, find_culprits, find_replaced, same_build
from rekindle.model.guard import PackageRecord, Replaced

NOW = 1000.0


def record(name: str, version: str = "1.0", **more: object) -> PackageRecord:
    return PackageRecord(name=name, version=version, **more)  # type: ignore[arg-type]


def torch(**more: object) -> PackageRecord:
    return record("torch", "2.9.1", **{"when": NOW, **more})


def blamed(*others: PackageRecord, now: PackageRecord | None = None) -> list[tuple[str, bool]]:
    found = find_culprits("torch", "2.6.0", now or torch(), [now or torch(), *others])
    return [(one.name, one.certain) for one in found]


def replaced(*others: PackageRecord, now: PackageRecord | None = None) -> Replaced:
    (one,) = find_replaced({"torch": "2.6.0"}, [now or torch(), *others])
    return one


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        ("2.6.0", "2.6.0", True),
        ("2.6.0", "2.6.0+cu124", True),
        ("2.6.0+cu124", "2.6.0+cu124", True),
        ("2.6.0+cu124", "2.6.0+cu126", False),
        ("2.6.0+cu124", "2.6.0", False),
        ("2.6.0", "2.6.1", False),
        ("2.6", "2.6.0", True),
        ("local-made", "local-made", True),
        ("local-made", "2.6.0", False),
    ],
)
def test_the_same_build(was: str, now: str, same: bool) -> None:
    assert same_build(was, now) is same


def test_what_is_as_it_was_is_not_told() -> None:
    assert find_replaced({"torch": "2.9.1"}, [torch()]) == ()
    assert find_replaced({"Torch_Vision": "0.2"}, [record("torch-vision", "0.2")]) == ()


def test_gone() -> None:
    (one,) = find_replaced({"torch": "2.6.0"}, [record("numpy")])
    assert (one.now, one.culprits) == (None, ())
    assert one.why == "torch 2.6.0 is gone: somebody uninstalled it."


@pytest.mark.parametrize(
    ("later", "told"), [(-1.0, False), (0.0, True), (SAME_RUN_SECONDS, True), (SAME_RUN_SECONDS + 1, False)]
)
def test_one_run_of_an_installer_has_a_beginning_and_an_end(later: float, told: bool) -> None:
    other = record("helper", requires=("torch>=2",), asked=True, when=NOW + later)
    assert blamed(other) == ([("helper", False)] if told else [])


def test_half_an_hour_is_one_run() -> None:
    assert SAME_RUN_SECONDS == 1800


def test_brought_along_is_not_blamed_for_a_version_it_does_not_forbid() -> None:
    assert blamed(record("helper", requires=("torch>=2",), when=NOW)) == []
    assert blamed(record("helper", requires=("torch>2.6",), when=NOW)) == [("helper", True)]
    assert blamed(record("helper", requires=("torch>2.6",), when=NOW - 9999)) == [("helper", True)]


def test_who_forbids_it_stands_alone() -> None:
    nearby = record("near", requires=("torch",), asked=True, when=NOW)
    picky = record("picky", requires=("torch==2.9.1",), when=NOW + 5)
    assert blamed(nearby, picky) == [("picky", True)]


def test_of_several_the_one_that_came_with_the_change_is_first() -> None:
    rows = [
        record("before", requires=("torch>2.6",), asked=True, when=NOW - 1),
        record("brought", requires=("torch>2.6",), when=NOW + 1),
        record("late", requires=("torch>2.6",), asked=True, when=NOW + 9),
        record("soon", requires=("torch>2.6",), asked=True, when=NOW),
    ]
    assert [name for name, _ in blamed(*rows)] == ["soon", "late", "brought", "before"]


@pytest.mark.parametrize(
    ("requires", "told"),
    [
        (("torch>2.6",), True),
        (("numpy>2.6",), False),
        (("this is no requirement !!", "torch>2.6"), True),
        (("numpy", "Torch>2.6"), True),
        (('torch>2.6 ; extra == "all"',), False),
        (('torch>2.6 ; extra == "all"', "torch>2.6"), True),
        (('torch>2.6 ; python_version >= "3.8"',), True),
        ((), False),
    ],
)
def test_whose_requirement_counts(requires: tuple[str, ...], told: bool) -> None:
    assert bool(blamed(record("helper", requires=requires, when=NOW))) is told


def test_a_package_is_not_blamed_for_itself() -> None:
    itself = torch(requires=("torch>2.6",), asked=True)
    assert blamed(now=itself) == []


def test_a_version_that_is_none_is_no_proof() -> None:
    other = record("helper", requires=("torch>2.6",), asked=True, when=NOW)
    (one,) = find_culprits("torch", "local-made", torch(), [other])
    assert one.certain is False


def test_a_pre_release_that_is_allowed_is_no_proof() -> None:
    other = record("helper", requires=("torch>=2.6",), asked=True, when=NOW)
    assert [one.certain for one in find_culprits("torch", "2.7.0.dev1", torch(), [other])] == [False]


MEANT = "the digest that was meant"


def changed(meant: str | None, now: PackageRecord) -> str:
    found = find_replaced({"torch": "2.9.1"}, [now], None if meant is None else {"torch": meant})
    assert all((one.name, one.was, one.now, one.culprits) == ("torch", "2.9.1", "2.9.1", ()) for one in found)
    return " ".join(one.why for one in found)


def test_the_same_version_with_the_files_that_were_meant_is_as_it_was() -> None:
    assert changed(MEANT, torch(contents=MEANT)) == ""
    assert changed(MEANT, torch(contents=MEANT, edited=("torch/_C.so",))) == "", "they were meant as they lie there"
    assert changed(None, torch(contents="any")) == changed("", torch(contents="any")) == ""


def test_another_build_of_the_same_version_is_told() -> None:
    said = "torch 2.9.1 is another build than the one that was meant: same version, other files."
    assert changed(MEANT, torch(contents="another")) == said
    assert changed(MEANT, torch(contents="another", installer="uv")) == said.replace("meant:", "meant (by uv):")


@pytest.mark.parametrize("meant", [None, "", MEANT])
def test_files_that_are_not_as_the_wheel_brought_them_are_named(meant: str | None) -> None:
    said = "torch 2.9.1: not as its wheel brought them, since changed or gone: "
    files = ("a.py", "b.py", "c.py", "d.py")
    assert changed(meant, torch(contents="another", edited=files[:1])) == f"{said}a.py"
    assert changed(meant, torch(contents="another", edited=files[:3])) == f"{said}a.py, b.py, c.py"
    assert changed(meant, torch(contents="another", edited=files)) == f"{said}a.py, b.py, c.py …"


def test_each_package_is_held_against_its_own_files() -> None:
    records = [torch(contents="x"), record("torchvision", "0.2", contents="y")]
    found = find_replaced({"torch": "2.9.1", "torchvision": "0.2"}, records, {"torch": "x", "torchvision": "x"})
    assert [one.name for one in found] == ["torchvision"]


def test_words_for_each_case() -> None:
    head = "torch 2.6.0 was replaced with 2.9.1"
    assert replaced().why.startswith(f"{head}. No package that is here now asks for it")
    assert replaced(now=torch(installer="uv")).why.startswith(f"{head} by uv. No package")
    assert replaced(now=torch(asked=True)).why == (
        f"{head}. torch itself was asked for by name: a command or a list of requirements said so."
    )
    picky = record("picky", requires=("torch>2.6",), when=NOW)
    assert replaced(picky).why == f"{head}. picky 1.0 (itself brought by another package) takes only torch>2.6."
    picky = record("picky", requires=("torch>2.6",), when=NOW, asked=True)
    assert replaced(picky).why == f"{head}. picky 1.0 takes only torch>2.6."
    assert replaced(picky, now=torch(asked=True)).why == f"{head}. picky 1.0 takes only torch>2.6."
    near = record("near", requires=("torch",), when=NOW, asked=True)
    assert replaced(near).why == f"{head}. It came in the same run as near 1.0, which asks for torch."
    assert "asked for by name" in replaced(near, now=torch(asked=True)).why


def test_the_record_of_the_replacement() -> None:
    one = replaced(record("picky", "3.2", requires=("torch>2.6",), when=NOW, asked=True))
    assert (one.name, one.was, one.now) == ("torch", "2.6.0", "2.9.1")
    (culprit,) = one.culprits
    assert (culprit.name, culprit.version, culprit.wants, culprit.asked) == ("picky", "3.2", "torch>2.6", True)
