"""R0xx asked directly: where a candidate departs from what was asked for."""

from __future__ import annotations

from planning import ask, build, plan, said


def test_cudnn_starts_at_its_oldest_card() -> None:
    assert said("R004", build("2.3.1", cuda="11.8"), ask("sm_50", cudnn="8.9.0")) == []
    assert [r.code for r in said("R004", build("2.3.1", cuda="11.8"), ask("sm_37", cudnn="8.9.0"))] == [
        "cudnn-lacks-arch"
    ]


def test_a_variant_beside_build_names_what_to_build_for() -> None:
    """``--build --variant cpu`` is no wish for a wheel that is then not kept."""
    cpu = ask(variant="cpu", build=True)
    assert said("R002", build("2.6.0"), cpu) == []
    assert said("R002", build("2.6.0"), ask(variant="cpu")) != [], "without --build the wheel was meant"
    assert said("R002", build("2.6.0", cuda="12.4"), cpu) != []
    card = ask("sm_61", variant="cu124", build=True)
    assert said("R002", build("2.6.0", cuda="12.4.1"), card) == []
    assert said("R002", build("2.6.0", cuda="12.6"), card) != []
    assert said("R002", build("2.6.0"), card) != []
    amd = ask("gfx906", variant="rocm6.2", build=True)
    assert said("R002", build("2.6.0", rocm="6.2.4"), amd) == []
    assert said("R002", build("2.6.0", rocm="6.3"), amd) != []
    assert plan(torch="2.6.0", variant="cpu", build=True).changes == ()
