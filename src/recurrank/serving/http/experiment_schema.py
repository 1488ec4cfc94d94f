"""Bodies and answers about experiments."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from recurrank.serving.experiment import Mode


class RolloutChange(Struct, forbid_unknown_fields=True):
    """Changes of how a ranker is rolled out; omitted fields stay the same."""

    mode: Mode | UnsetType = UNSET
    share: Annotated[float, Meta(ge=0, le=1, description="of the subjects that get the ranker")] | UnsetType = UNSET
    margin: Annotated[float, Meta(ge=0, lt=1, description="a share of the baseline's clicks")] | UnsetType = UNSET
    alpha: Annotated[float, Meta(gt=0, lt=1)] | UnsetType = UNSET
    experiment: Annotated[str, Meta(max_length=200, description="another one divides the subjects anew")] | UnsetType = UNSET
    budget: Annotated[float, Meta(gt=0, le=1, description="a share of the baseline's clicks; 1 for no ramp")] | UnsetType = (
        UNSET
    )


class ArmStatus(Struct):
    """One arm: slates whose clicks are counted, clicks, and clicks per slate."""

    slates: int
    clicks: float
    mean: float | None


class InterleavedStatus(Struct):
    """Interleaved slates: ``credit`` per slate is above 0 where users prefer the ranker. The p-value is valid at all times."""

    slates: int
    credit: float | None
    p_value: float


class ExperimentMoment(Struct):
    """A comparison after so many slates: both arms' clicks per slate, and the interval of the difference at that time."""

    slates: int
    baseline: float | None
    ranker: float | None
    low: float | None
    high: float | None
    credit: float | None
    p_value: float | None


class ExperimentStatus(Struct):
    """How a ranker is rolled out, and what is known about it against the baseline.

    ``low`` and ``high`` enclose the ranker's clicks per slate minus the baseline's, at all times with probability 1 - alpha.
    ``stopped`` is why the brake has gone back to the baseline; it stays there until it is released. ``version`` is the event
    since which the mode holds, ``since`` the one that the comparison began with. ``share_now`` is below ``share`` while a ramp
    (``budget``) grows; each of its steps begins a new comparison, with its part of alpha. ``waiting`` are slates that count
    when they and all earlier ones have been answered or their windows have closed. Each subject counts once.
    """

    name: str
    mode: Mode
    share: float
    margin: float
    alpha: float
    experiment: str
    budget: float | None
    share_now: float
    version: int
    since: int
    stopped: str | None
    verdict: Literal["ranker", "baseline", "undecided"]
    baseline: ArmStatus
    ranker: ArmStatus
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    brake_p_value: float | None
    interleaved: InterleavedStatus
    waiting: int
    history: list[ExperimentMoment]
