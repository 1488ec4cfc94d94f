"""Options: declared once, in a constructor's signature."""

from __future__ import annotations

import inspect
from typing import Annotated, Literal

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers.options import REQUIRED, Option, declared, schema_of

NAMES = rr.rankers.names("catalogue")
SIZE = {"positions": 2, "rounds": 100, "seed": 0}


def made(name, **options):
    return rr.rankers.make(name, features=np.eye(4), **SIZE, told={"attraction": np.full(4, 0.5)}, **options)


class Example:
    def __init__(
        self,
        features: object,
        *,
        share: Annotated[float, Option("a share", above=0, most=1)] = 0.5,
        count: Annotated[int | None, Option("a count", least=1, usually=lambda _: 7)] = None,
        mode: Annotated[Literal["a", "b"], Option("a mode")] = "a",
        on: Annotated[bool, Option("a switch")] = False,
        each: Annotated[list[float], Option("numbers", least=0, per="position")],
        plain=3,
    ) -> None: ...


class Two:
    positions = 2
    catalogue = range(4)


OPTIONS = declared(Example)


def test_every_option_has_a_kind_and_a_sentence_and_is_remembered():
    for name in NAMES:
        ranker = made(name)
        known = type(ranker).declared()
        only_if_given = ("prior", "initial")
        assert list(ranker.options()) == [option for option in known if option not in only_if_given]
        for option in known.values():
            assert option.kind != "any" or option.name == "prior", (name, option.name)
            assert option.help
            assert option.help[0].islower() or option.help.startswith(("M ", "O("))
            assert not option.help.endswith(".")


def test_what_a_ranker_was_made_with_makes_it_again():
    for name in NAMES:
        ranker = made(name)
        again = type(ranker)(np.eye(4), **SIZE, **ranker.options())
        assert again.options() == ranker.options()
        assert again.identity == ranker.identity


def test_signatures_say_the_same():
    for name in NAMES:
        kind = type(made(name))
        only = [p for p in inspect.signature(kind).parameters.values() if p.kind is p.KEYWORD_ONLY]
        assert [(p.name, p.default) for p in only] == [(o.name, o.default) for o in kind.declared().values()]


def test_a_ranker_that_passes_options_on_has_those_of_its_base(monkeypatch):
    """As a ranker of a user's own may: with ``*arguments, **options``."""

    class Passing(rr.rankers.EpsilonGreedy):
        name = "passing"

        def __init__(self, *arguments, twice: bool = False, **options):
            super().__init__(*arguments, **options)
            self.record(twice=twice)

    assert list(Passing.declared()) == ["epsilon", "twice"]
    ranker = Passing(np.eye(4), **SIZE, epsilon=0.25)
    assert ranker.options() == {"epsilon": 0.25, "twice": False}
    monkeypatch.setitem(rr.rankers.ranker._rankers, "passing", Passing)
    assert rr.load(ranker.save(), np.eye(4)).options() == ranker.options()
    with pytest.raises(ValueError, match=r"^passing: 'nope' is not one of its options; it takes epsilon, twice"):
        rr.rankers.make("passing", features=np.eye(4), **SIZE, nope=1)


def test_a_ranker_that_leaves_out_an_option_of_its_base_is_told_so():
    class Fixed(rr.rankers.EpsilonGreedy):
        def __init__(self, features, positions, rounds, seed=None):
            super().__init__(features, positions, rounds, seed, epsilon=0.5)

    with pytest.raises(ValueError, match=r"^epsilon: the constructor of Fixed does not take it; add it there, or \*\*options$"):
        Fixed(np.eye(4), **SIZE)


def test_kinds_defaults_and_words_come_from_the_signature():
    assert {name: option.kind for name, option in OPTIONS.items()} == {
        "share": "number", "count": "integer", "mode": "choice", "on": "boolean", "each": "numbers", "plain": "any",
    }  # fmt: skip
    assert [option.default for option in OPTIONS.values()] == [0.5, None, "a", False, REQUIRED, 3]
    assert [option.wanted for option in list(OPTIONS.values())[:5]] == [
        "a number above 0 and at most 1",
        "a whole number of at least 1",
        "'a' or 'b'",
        "true or false",
        "a list with one number per position of at least 0",
    ]


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [("share", 1, 1.0), ("count", None, 7), ("count", 3.0, 3), ("mode", "b", "b"), ("on", True, True), ("plain", "x", "x")],
)
def test_values_that_will_do(name, value, kept):
    got = OPTIONS[name].checked(value, Two())
    assert (got, type(got)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("share", 0, "share: 0 is out of range; give a number above 0 and at most 1"),
        ("share", float("nan"), "share: nan is out of range; give a number above 0 and at most 1"),
        ("share", True, "share: True is not a number"),
        ("count", 0, "count: 0 is out of range; give a whole number of at least 1"),
        ("count", 1.5, "count: 1.5 is not a whole number"),
        ("mode", "c", "mode: 'c' is unknown; choose 'a' or 'b'"),
        ("on", 1, "on: 1 is unknown; choose true or false"),
        ("each", [1, 2, 3], r"each: shape is \(3,\); it should be \(2,\), one number per position"),
        ("each", [1, -2], r"each\[1\]: -2.0 is out of range; give a list with one number per position of at least 0"),
        ("each", [[1], [2, 3]], "each: not an array of numbers"),
    ],
)
def test_values_that_will_not(name, value, said):
    with pytest.raises(ValueError, match=rf"^{said}"):
        OPTIONS[name].checked(value, Two())


def test_schemas():
    schema = schema_of(OPTIONS)
    assert schema["required"] == ["each"]
    assert not schema["additionalProperties"]
    assert schema["properties"]["share"] == {
        "type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "a share", "default": 0.5,
    }  # fmt: skip
    assert schema["properties"]["mode"] == {"enum": ["a", "b"], "description": "a mode", "default": "a"}
    assert schema["properties"]["each"]["items"] == {"type": "number", "minimum": 0}
    for name in NAMES:
        assert set(made(name).options_schema()["properties"]) == set(made(name).declared()) - {"attraction"}


def test_what_a_simulation_knows_is_told_to_those_who_need_it():
    assert made("oracle").options() == {"attraction": [0.5] * 4}
    with pytest.raises(ValueError, match=r"^attraction: oracle needs it; give a list with one number per item"):
        rr.rankers.make("oracle", features=np.eye(4), **SIZE)
    assert made("oracle", attraction=[0.1, 0.2, 0.3, 0.4]).rank().items.tolist() == [3, 2]
