"""An experiment's status for people: both arms, the interval of their difference, the verdict, the brake, the history."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from recurrank.rollout import Arm, ArmComparison, Brake
from recurrank.serving.experiment import Experiment, Moment

if TYPE_CHECKING:
    from recurrank.serving.hosted import HostedRanker


def experiment_of(hosted: HostedRanker) -> dict[str, Any]:
    """The comparison as far as the log is folded; the mode is the one in which slates are drawn now."""
    with hosted.folding:
        experiment, mode = hosted.fold.experiment, hosted.mode
        if mode.since != experiment.rollout.since:  # the fold is behind: nothing has been compared in this mode
            experiment = Experiment(hosted.spec.positions, mode.settings)
        both, preference = experiment.both, experiment.preference
        moments, waiting = list(experiment.moments), len(experiment.order)
        both = ArmComparison(both.most, both.alpha, both.baseline, both.ranker)
        verdict = "baseline" if mode.stopped is not None else verdict_of(experiment)
        interleaved = {
            "slates": preference.sessions,
            "credit": preference.mean if preference.sessions else None,
            "p_value": preference.p_value(),
        }
    compared = both.baseline.slates > 0 and both.ranker.slates > 0
    low, high = both.interval() if compared else (None, None)
    return {
        "name": hosted.stored.name,
        "mode": mode.settings.mode,
        "share": mode.settings.share,
        "margin": mode.settings.margin,
        "alpha": mode.settings.alpha,
        "experiment": mode.settings.experiment or hosted.stored.name,
        "budget": None if mode.settings.budget is UNSET else mode.settings.budget,
        "share_now": mode.share,
        "version": mode.seq,
        "since": mode.since,
        "stopped": mode.stopped,
        "verdict": verdict,
        "baseline": _arm(both.baseline),
        "ranker": _arm(both.ranker),
        "difference": both.difference if compared else None,
        "low": low,
        "high": high,
        "p_value": both.p_value() if compared else None,
        "brake_p_value": Brake(mode.settings.margin, mode.alpha).p_value(both) if compared else None,
        "interleaved": interleaved,
        "waiting": waiting,
        "history": [_moment(moment, both) for moment in moments],
    }


def verdict_of(experiment: Experiment) -> str:
    """Which arm has significantly more clicks: ``ranker``, ``baseline`` or ``undecided``."""
    both, preference, alpha = experiment.both, experiment.preference, experiment.both.alpha
    if both.baseline.slates and both.ranker.slates and both.p_value() <= alpha:
        return "ranker" if both.difference > 0 else "baseline"
    if preference.sessions and preference.p_value() <= alpha:
        return "ranker" if preference.mean > 0 else "baseline"
    return "undecided"


def _arm(arm: Arm) -> dict[str, Any]:
    return {"slates": arm.slates, "clicks": arm.clicks, "mean": arm.mean if arm.slates else None}


@functools.lru_cache(4096)
def _interval(most: float, alpha: float, baseline: Arm, ranker: Arm) -> tuple[float, float]:
    """The interval at a past moment; cached, since pages ask for it again and again."""
    return ArmComparison(most, alpha, baseline, ranker).interval()


def _moment(moment: Moment, now: ArmComparison) -> dict[str, Any]:
    compared = moment.baseline.slates > 0 and moment.ranker.slates > 0
    low, high = _interval(now.most, now.alpha, moment.baseline, moment.ranker) if compared else (None, None)
    interleaved = moment.slates > moment.baseline.slates + moment.ranker.slates
    return {
        "slates": moment.slates,
        "baseline": moment.baseline.mean if moment.baseline.slates else None,
        "ranker": moment.ranker.mean if moment.ranker.slates else None,
        "low": low,
        "high": high,
        "credit": moment.credit if interleaved else None,
        "p_value": moment.p_value if interleaved else None,
    }
