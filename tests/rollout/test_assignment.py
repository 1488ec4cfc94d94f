"""Who gets the ranker: stable arms."""

from __future__ import annotations

import numpy as np
import pytest

from recurrank.rollout import arm_of, unit_of


def test_arms_are_stable_grow_with_the_share_and_are_independent_between_experiments():
    subjects = [f"visitor-{n}" for n in range(10_000)]
    tenth = [arm_of(subject, 0.1, "spring") == "ranker" for subject in subjects]
    half = [arm_of(subject, 0.5, "spring") == "ranker" for subject in subjects]
    other = [arm_of(subject, 0.5, "autumn") == "ranker" for subject in subjects]
    assert np.mean(tenth) == pytest.approx(0.1, abs=0.012)  # four standard deviations
    assert np.mean(half) == pytest.approx(0.5, abs=0.02)
    assert all(more for less, more in zip(tenth, half, strict=True) if less)
    assert np.mean(np.equal(half, other)) == pytest.approx(0.5, abs=0.02)
    assert {arm_of(subject, 0.0, "spring") for subject in subjects[:100]} == {"baseline"}
    assert {arm_of(subject, 1.0, "spring") for subject in subjects[:100]} == {"ranker"}
    assert [n for n in range(40) if tenth[n]] == [10, 12, 17, 19, 34]  # a change here would move visitors from arm to arm


@pytest.mark.parametrize("subject", [None, "", 7, b"anna", ["anna"]])
def test_a_subject_is_a_text_that_is_not_empty(subject):
    """Of None for everybody, all would be in one arm."""
    for assign in (lambda: arm_of(subject, 0.5, "spring"), lambda: unit_of(subject, "spring")):
        with pytest.raises(ValueError, match=r"subject is .*; it should be a text that is not empty"):
            assign()


def test_a_share_is_between_0_and_1():
    with pytest.raises(ValueError, match=r"share is 1\.5"):
        arm_of("a", 1.5, "spring")
