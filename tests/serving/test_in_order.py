"""What a comparison counts: each subject once, slates in the order in which they were served, whenever their answers come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurrank.rollout import arm_of, unit_of
from recurrank.rollout.assignment import UNITS
from recurrank.serving.events import Event, Kind
from recurrank.serving.experiment import Experiment, RolloutSettings, turned
from recurrank.serving.in_order import FEW, InOrder
from recurrank.serving.trial import Trial, attach, erased

SLATE = np.arange(2, dtype="<i4").tobytes()
SHARE = RolloutSettings(mode="share", share=0.5)


def event(seq: int, kind: Kind, served: int = 0, clicks: int = 0, arm="baseline", subject=None) -> Event:
    unit = None if subject is None else unit_of(subject, "spring")
    payload = attach(SLATE, Trial(subject, arm, unit=unit))
    return Event(seq, 1, int(kind), served, bytes([(1 << clicks) - 1]), payload, 0.0)


@given(st.lists(st.integers(0, 2), max_size=30), st.randoms(use_true_random=False))
def test_what_has_counted_is_always_a_beginning_of_what_was_served(clicks, random):
    """Answers, and that some never come, in any order; a snapshot is taken on the way."""
    order, counted = InOrder(), []
    for seq in range(len(clicks)):
        order.serve(seq, None)
    answers = list(enumerate(clicks))
    random.shuffle(answers)
    for n, (seq, clicked) in enumerate(answers):
        counted += order.answer(seq, *([clicked] if clicked < 2 else []))
        known = {one for one, _ in answers[: n + 1]}
        complete = next((one for one in range(len(clicks)) if one not in known), len(clicks))
        assert counted == [[one] for one in clicks[:complete] if one < 2]
        assert len(order) == len(clicks) - complete
        again = InOrder()
        again.unpack(order.pack())
        assert again.pack() == order.pack()
        order = again
    assert list(order.answer(0, 1)) == []  # it has been answered


@pytest.mark.parametrize("count", [0, 1, 100, 2 * FEW])
def test_a_unit_counts_once_also_after_a_snapshot(count):
    order = InOrder()
    for unit in range(count):
        order.serve(unit, unit * (UNITS // max(count, 1)))
    assert len(order) == count
    again = InOrder()
    again.unpack(order.pack())
    again.begin()
    for unit in range(count):
        again.serve(count + unit, unit * (UNITS // count))
    assert len(again) == 0
    again.serve(2 * count + 1, 1)
    assert len(again) == 1


def played(experiment: Experiment, slates) -> None:
    """Slates (subject, arm, clicks) that are answered at once."""
    events = []
    for subject, arm, clicks in slates:
        seq = 1 + 2 * len(events)
        events += [[event(seq, Kind.SERVED, 0, 0, arm, subject), event(seq + 1, Kind.LEARNED, seq, clicks, arm, subject)]]
    experiment.apply([one for pair in events for one in pair])


def alarms(runs: int, as_subjects: bool) -> int:
    """Experiments of two equal arms in which 30 visitors come 80 times each, each with a taste; looked at eight times."""
    rng, found = np.random.default_rng(0), 0
    for run in range(runs):
        experiment, seen = Experiment(2, SHARE), []
        rate = rng.beta(0.3, 1.0, 30)
        for visitor in rng.permutation(np.repeat(np.arange(30), 80)).tolist():
            subject = f"{run}/{visitor}"
            seen.append((subject if as_subjects else None, arm_of(subject, 0.5, "spring"), int(rng.random() < rate[visitor])))
        for start in range(0, len(seen), 300):
            played(experiment, seen[start : start + 300])
            if experiment.both.baseline.slates and experiment.both.ranker.slates and experiment.both.p_value() <= 0.05:
                found += 1
                break
    return found


def test_visitors_that_come_back_raise_no_more_false_alarms_than_agreed():
    """At most 5 % (2 of 40 are expected, 6 have a probability of 1 %); counted slate by slate it is more than a fifth."""
    assert alarms(40, as_subjects=True) <= 5
    assert alarms(40, as_subjects=False) >= 8


def test_arms_whose_clicks_come_sooner_are_not_ahead():
    """Equal arms: 20 % of the baseline's slates have two clicks, 40 % of the ranker's have one; others say nothing."""
    experiment, rng = Experiment(2, SHARE), np.random.default_rng(0)
    served, answers, silent = [], [], []
    for seq in range(1, 2001):
        arm = "ranker" if rng.random() < 0.5 else "baseline"
        clicks = (1 if rng.random() < 0.4 else 0) if arm == "ranker" else (2 if rng.random() < 0.2 else 0)
        served.append(event(seq, Kind.SERVED, 0, 0, arm))
        (answers if clicks else silent).append((seq, clicks, arm))
    experiment.apply(served)
    experiment.apply([event(3000 + seq, Kind.LEARNED, seq, clicks, arm) for seq, clicks, arm in answers])
    assert experiment.slates < 20
    assert experiment.to_stop() is None
    experiment.apply([event(6000 + seq, Kind.LEARNED, seq, 0, arm) for seq, _, arm in silent])  # their windows close
    assert (experiment.slates, len(experiment.order)) == (2000, 0)
    assert abs(experiment.both.difference) < 0.1


def test_a_slate_whose_answer_never_comes_does_not_hold_up_the_others():
    experiment = Experiment(2, SHARE)
    experiment.apply([event(seq, Kind.SERVED) for seq in (1, 2, 3)])
    experiment.apply([event(4, Kind.LEARNED, 2, 1), event(5, Kind.LEARNED, 3, 1)])
    assert experiment.slates == 0
    experiment.apply([event(6, Kind.DROPPED, 1)])
    assert (experiment.slates, experiment.both.baseline.clicks) == (2, 2.0)


def test_steps_of_a_ramp_count_a_subject_once_and_other_comparisons_begin_anew():
    ramp = RolloutSettings(mode="share", share=0.5, budget=0.1)
    experiment = Experiment(2, ramp)
    played(experiment, [("anna", "ranker", 1), ("anna", "ranker", 1), ("ben", "baseline", 0)])
    assert experiment.slates == 2
    experiment.apply([Event(100, 1, int(Kind.ROLLOUT), 0, b"", turned(ramp, step=1), 0.0)])
    played(experiment, [("anna", "ranker", 1), ("carla", "ranker", 1)])
    assert experiment.slates == 1  # carla
    experiment.apply([Event(200, 1, int(Kind.ROLLOUT), 0, b"", turned(SHARE), 0.0)])
    played(experiment, [("anna", "ranker", 1)])
    assert experiment.slates == 1


def test_erasing_a_subject_changes_nothing_of_a_comparison():
    """Its unit stays, which a million subjects share a million of."""
    whole, without = Experiment(2, SHARE), Experiment(2, SHARE)
    events = [event(1, Kind.SERVED, subject="anna"), event(2, Kind.LEARNED, 1, 1, subject="anna")]
    events += [event(3, Kind.SERVED, subject="anna"), event(4, Kind.LEARNED, 3, 0, subject="anna")]
    whole.apply(events)
    without.apply([one._replace(payload=erased(one.payload)) for one in events])
    assert whole.slates == 1
    assert without.pack() == whole.pack()
