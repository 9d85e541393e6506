"""What is known of building a release for a card."""

from __future__ import annotations

from planning import FACTS

from rekindle.model.arch import parse_sm
from rekindle.plan.evidence import KnownBuild, anybody_built, arch_syntax, tried_kits, weakest_build


def test_the_oldest_releases_read_architectures_as_the_first_known_did() -> None:
    assert arch_syntax("0.1.12", FACTS) == FACTS.sources.syntax[0]


def test_the_weakest_of_several_cards() -> None:
    near = KnownBuild("untried", "near", near=True)
    untried, proven, told = KnownBuild("untried", "no"), KnownBuild("proven", "yes"), KnownBuild("reported", "said")
    assert weakest_build([proven, told, near, untried]) is untried
    assert weakest_build([near, proven]) is near
    assert weakest_build([proven, told]) is told
    assert weakest_build([]) is None


def test_whether_anybody_built_it() -> None:
    assert anybody_built("2.6.0", parse_sm("sm_90"), "linux", FACTS), "an official wheel has it"
    assert anybody_built("1.13.1", parse_sm("sm_35"), "linux", FACTS), "a row of evidence names it"
    assert anybody_built("2.6.0", parse_sm("sm_35"), "linux", FACTS), "all its kernels were compiled by us"
    assert not anybody_built("2.6.0", parse_sm("sm_35"), "windows", FACTS), "with GCC beside nvcc"
    assert not anybody_built("2.7.0", parse_sm("sm_35"), "linux", FACTS)
    assert tried_kits("1.13.1", (), "linux", FACTS) == ()
