"""What is counted over time: compared with the whole history, which the tally does not keep."""

from __future__ import annotations

import numpy as np
import pytest

from recurrank.serving.tally import BINS, SLATES, SPAN, Tally, tally_round


@pytest.mark.parametrize("rounds", [0, 1, 63, 64, 65, 255, 256, 257, 999, 1000, 1001, 5000])
def test_it_says_what_the_history_says(rounds):
    rng, positions = np.random.default_rng(rounds), 3
    slates = np.array([rng.permutation(50)[:positions] for _ in range(rounds)], np.int64).reshape(rounds, positions)
    seen = rng.integers(0, positions + 1, rounds)
    tally = Tally.empty(positions)
    for number in range(rounds):
        tally_round(tally, number, int(seen[number]), slates[number])
    first, last = tally.rates(rounds)
    assert first == (seen[:SPAN].mean() if rounds else None)
    assert last == (seen[-SPAN:].mean() if rounds else None)
    spread = 1.96 * seen[-SPAN:].std(ddof=1) / np.sqrt(len(seen[-SPAN:])) if rounds > 1 else None
    assert tally.margin(rounds) == (pytest.approx(spread) if rounds > 1 else None)
    width, clicks, rest = tally.curve(rounds)
    assert width == next(2**n for n in range(20) if 2**n * BINS >= rounds)
    assert clicks == [int(seen[start : start + width].sum()) for start in range(0, rounds, width)]
    assert len(clicks) <= BINS
    assert rest == (len(seen[(len(clicks) - 1) * width :]) if rounds else 0)
    shown = sorted(map(tuple, slates[-SLATES:].tolist()))
    assert sorted(map(tuple, tally.last_slates(rounds).tolist())) == shown


def test_it_is_kept_as_it_is():
    tally = Tally.empty(4)
    for number in range(700):
        tally_round(tally, number, number % 5, np.arange(4) + number)
    packed = tally.pack()
    again = Tally.unpack(packed, 4)
    assert again.pack() == packed
    for one, other in zip(tally, again, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    tally_round(again, 700, 1, np.arange(4))  # what was read can be written to
    with pytest.raises(ValueError, match="size"):
        Tally.unpack([packed[0][:-8], *packed[1:]], 4)
    with pytest.raises(ValueError, match="argument"):
        Tally.unpack(packed[:-1], 4)
