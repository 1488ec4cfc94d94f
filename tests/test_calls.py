"""What the Python clients send: bad input is refused before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest

from recurrank import _calls

NAMED = [
    lambda name: _calls.create(name, 2, None, {}),
    lambda name: _calls.rank(name, None, False, {}),
    lambda name: _calls.rank(name, None, False, {"features": [[1.0]]}),
    lambda name: _calls.change_items(name, (), (), ()),
    lambda name: _calls.items(name, 0, 10),
    lambda name: _calls.set_rules(name, (), {}, 1.0),
    _calls.status,
    _calls.experiment,
    lambda name: _calls.set_experiment(name, {}),
    _calls.release,
    _calls.delete,
]
"""Every call that has a ranker's name in its path."""


@pytest.mark.parametrize("call", NAMED)
def test_a_name_is_one_part_of_the_path(call):
    ordinary = call("films").path
    assert call("pm/../victim?x#y").path == ordinary.replace("films", "pm%2F..%2Fvictim%3Fx%23y")
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="is not the name of a ranker"):
            call(name)


@pytest.mark.parametrize("field", ["clicked", "seen"])
@pytest.mark.parametrize(
    "mask",
    [[False, True, False], [np.False_, np.True_], np.array([False, True]), [0, True]],
    ids=["bool", "numpy", "array", "mixed"],
)
def test_a_mask_is_not_taken_for_positions(field, mask):
    with pytest.raises(ValueError, match=f"{field}: true and false are not positions"):
        _calls.feedback("s", **{"clicked": [0], "clicks": None, "final": True, "seen": None, field: mask})


@pytest.mark.parametrize("field", ["clicked", "seen"])
@pytest.mark.parametrize("given", [[1.7], [0.9], np.array([0.9]), ["1"], [None], [float("nan")]])
def test_what_is_not_a_whole_number_is_refused(field, given):
    with pytest.raises(ValueError, match=f"{field}: .* is not a position; give whole numbers"):
        _calls.feedback("s", **{"clicked": [0], "clicks": None, "final": True, "seen": None, field: given})


def test_positions_of_any_whole_kind_are_plain_numbers():
    (report,) = _calls.feedback("s", (0, np.int64(2)), None, True, np.array([0, 1, 2], np.uint8)).body
    assert report == {"slate": "s", "clicks": [0, 2], "final": True, "seen": [0, 1, 2]}
    assert {type(position) for position in report["clicks"] + report["seen"]} == {int}
