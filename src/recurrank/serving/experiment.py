"""Experiments: a ranker next to the ranking that it is to replace, its mode, and the comparison of the two.

| mode | what is shown | what is compared |
|---|---|---|
| ``full`` | the ranker's slate | nothing |
| ``shadow`` | the baseline; the answer also says what the ranker would show | nothing; the baseline's clicks are counted |
| ``share`` | the ranker to a share of the subjects, the baseline to the others | clicks per slate of both arms |
| ``interleave`` | a list drafted from both orders | which order's items are clicked |

Modes change by ROLLOUT events. Like a change of items, such an event makes all slates drawn before it stale, on every server,
so that each slate of the log was drawn in the mode that the log says. The comparison is a fold of the log; only the decisions
of the brake and of the ramp are made once, by the learner, and written as events. Each subject counts once, and slates count in
the order in which they were served (``in_order.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from recurrank.rollout import Arm, ArmComparison, Brake, Interleaved, Preference, affordable, arm_of, ramp, unit_of
from recurrank.rollout.interleaving import rounds_of
from recurrank.serving import trial
from recurrank.serving.events import Event, Kind, shown_in
from recurrank.serving.in_order import InOrder

POINTS = 64
"""Most moments of a comparison that are kept, for its chart; beyond that every other one is dropped."""
FIRST = 16
"""Initial number of slates between two such moments."""
SERVED, ROLLOUT, ANSWERED = int(Kind.SERVED), int(Kind.ROLLOUT), (int(Kind.LEARNED), int(Kind.DROPPED))

Mode = Literal["full", "shadow", "share", "interleave"]


class RolloutSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a ranker is rolled out."""

    mode: Annotated[Mode, Meta(description="what is shown: the ranker, the baseline, or each to some")] = "full"
    share: Annotated[float, Meta(ge=0, le=1, description="in mode `share`, of the subjects that get the ranker")] = 0.1
    margin: Annotated[
        float, Meta(ge=0, lt=1, description="the brake stops a ranker that has fewer clicks by more than this share")
    ] = 0.05
    alpha: Annotated[float, Meta(gt=0, lt=1, description="how probable it may be that the comparison is ever wrong")] = 0.05
    experiment: Annotated[
        str, Meta(max_length=200, description="another name divides the subjects anew; by default the ranker's")
    ] = ""
    budget: (
        Annotated[
            float,
            Meta(gt=0, le=1, description="the share grows as the ranker is shown to cost at most this share of the clicks"),
        ]
        | UnsetType
    ) = UNSET  # not written where it was not given: logs of the time before it have none

    @property
    def shares(self) -> tuple[float, ...]:
        """The successive shares of the ranker in mode ``share``: the given one, or those of a ramp."""
        return (self.share,) if self.budget is UNSET else ramp(self.share, self.budget)


class _Turn(msgspec.Struct, array_like=True):
    """The payload of a ROLLOUT event; the fields' order is on disk."""

    settings: RolloutSettings
    stopped: str | None = None
    step: int = 0


class Rollout(NamedTuple):
    """The mode of a ranker after the event ``seq``, the last that changed it.

    ``stopped`` is the reason why the brake stopped the ranker, None if it did not. ``since`` is the event that began this
    comparison; a stop does not end it. ``step`` counts how often a ramp has grown.
    """

    settings: RolloutSettings = RolloutSettings()
    stopped: str | None = None
    seq: int = 0
    since: int = 0
    step: int = 0

    @property
    def share(self) -> float:
        """The current share of subjects that get the ranker, in mode ``share``."""
        settings = self.settings
        return settings.share if settings.budget is UNSET else settings.shares[min(self.step, len(settings.shares) - 1)]

    @property
    def next_share(self) -> float | None:
        """The next share of a ramp; None if it does not grow any more."""
        later = self.settings.shares[self.step + 1 :]
        return later[0] if later and self.stopped is None and self.settings.mode == "share" else None

    @property
    def alpha(self) -> float:
        """The part of alpha for this comparison: a ramp divides alpha among its steps."""
        return self.settings.alpha / (len(self.settings.shares) if self.settings.mode == "share" else 1)

    @property
    def full(self) -> bool:
        """Whether everybody gets the ranker's slates."""
        return self.settings.mode == "full" and self.stopped is None

    def after(self, events: Iterable[Event]) -> Rollout:
        """The mode after these events as well; ValueError for an unreadable one."""
        rollout = self
        for event in events:
            if event.kind == Kind.ROLLOUT and event.seq > rollout.seq:
                try:
                    turn = msgspec.msgpack.decode(event.payload, type=_Turn)
                except msgspec.MsgspecError as error:
                    raise ValueError(f"event {event.seq}: it is not a mode of a ranker ({error})") from error
                since = event.seq if turn.stopped is None else rollout.since
                rollout = Rollout(turn.settings, turn.stopped, event.seq, since, turn.step)
        return rollout

    def assign(self, ranker: str, subject: str | None, slate: str) -> tuple[trial.Arm, int | None]:
        """Whose order a slate shows, chosen by its subject, or by its own id if it has none; and the subject's unit."""
        mode, experiment = self.settings.mode, self.settings.experiment or ranker
        if self.stopped is not None or mode == "shadow":
            return "baseline", None
        unit = None if subject is None else unit_of(subject, experiment)
        if mode == "interleave":
            return "interleaved", unit
        return arm_of(slate if subject is None else subject, self.share, experiment), unit


def turned(settings: RolloutSettings, stopped: str | None = None, step: int = 0) -> bytes:
    """The payload of the ROLLOUT event that sets this mode."""
    return msgspec.msgpack.encode(_Turn(settings, stopped, step))


class Moment(NamedTuple):
    """A comparison after ``slates`` slates: the sums of both arms, and the credit and p-value of interleaved sessions."""

    slates: int
    baseline: Arm
    ranker: Arm
    credit: float
    p_value: float


class Experiment:
    """The comparison, folded from the log.

    Args:
        positions: the most clicks that a slate can have.
        settings: the mode that the ranker was created with.

    Attributes:
        rollout: the mode.
        both: clicks per slate of both arms.
        preference: credits of interleaved slates.
        moments: the comparison over time.
        order: slates to be compared that wait for answers.

    """

    def __init__(self, positions: int, settings: RolloutSettings | None = None) -> None:
        self._positions, self._initial = positions, settings or RolloutSettings()
        self.rollout = Rollout(self._initial)
        self.order = InOrder()
        self._begin()

    def _begin(self) -> None:
        self.both = ArmComparison(float(self._positions), self.rollout.alpha)
        self.preference = Preference()
        self.moments: list[Moment] = []
        self._every = FIRST

    @property
    def slates(self) -> int:
        """Number of slates compared so far."""
        return self.both.baseline.slates + self.both.ranker.slates + self.preference.sessions

    def apply(self, events: Sequence[Event]) -> None:
        """Fold new events of the ranker, in order."""
        for event in events:
            if event.kind == ROLLOUT:
                since = self.rollout.since
                self.rollout = self.rollout.after([event])
                if self.rollout.since != since:
                    self._begin()
                    self.order = self.order if self.rollout.step else InOrder()  # a ramp counts each subject in one step
                    self.order.begin()
            elif trial.has_trial(event.payload):
                self._take(event)

    def _take(self, event: Event) -> None:
        """Fold an event of a slate that has a trial."""
        if event.kind == SERVED:
            what = trial.trial_of(event.payload)
            if what.arm and self.rollout.stopped is None:
                self.order.serve(event.seq, what.unit)
        elif event.kind in ANSWERED:
            for outcome in self.order.answer(event.served, *self._outcome(event)):
                self._count(*outcome)

    def _outcome(self, event: Event) -> list[Any]:
        """The arm of a slate, and its clicks or credit; empty if it has no answer."""
        if event.kind == Kind.DROPPED:
            return []
        what = trial.trial_of(event.payload)
        if what.arm != "interleaved":
            return [what.arm, int.from_bytes(event.clicks[: (self._positions + 7) // 8], "little").bit_count()]
        shown = shown_in(event.payload, self._positions)
        clicked = [k for k in range(shown) if event.clicks and event.clicks[k >> 3] >> (k & 7) & 1]
        return [what.arm, Interleaved(np.arange(shown), np.array(what.credit, float), rounds_of(shown)).credit(clicked)]

    def _count(self, arm: Any, value: float) -> None:
        if arm == "interleaved":
            self.preference.observe(value)
        else:
            self.both.observe(arm, value)
        if self.slates % self._every == 0:
            credit, p_value = self.preference.mean, self.preference.p_value()
            self.moments.append(Moment(self.slates, self.both.baseline, self.both.ranker, credit, p_value))
            if len(self.moments) > POINTS:
                self.moments, self._every = self.moments[1::2], 2 * self._every

    def to_stop(self) -> str | None:
        """The reason why the brake should stop the ranker now, None if it should not."""
        settings = self.rollout.settings
        if self.rollout.stopped is not None:
            return None
        if settings.mode == "share" and self.both.ranker.slates:
            brake = Brake(settings.margin, self.rollout.alpha)
            brake.look(self.both)
            return brake.stopped
        if settings.mode == "interleave" and self.preference.mean < 0 and self.preference.p_value() <= settings.alpha:
            return (
                f"users prefer the baseline: credit {self.preference.mean:.4f} per slate after "
                f"{self.preference.sessions:,} interleaved slates, at alpha = {settings.alpha:g}"
            )
        return None

    def may_grow(self) -> bool:
        """Whether the ramp should go to its next share now."""
        share, budget = self.rollout.next_share, self.rollout.settings.budget
        if share is None or budget is UNSET or not (self.both.ranker.slates and self.both.baseline.slates):
            return False
        return affordable(self.both, share, budget) <= self.rollout.alpha

    def pack(self) -> list[Any]:
        """The state for a snapshot; empty if only the ranker's own slates were ever shown."""
        if self.rollout == Rollout(self._initial) and not self.slates and not self.order:
            return []
        preference = [self.preference.sessions, self.preference.total, self.preference.capital.astype("<f8").tobytes()]
        since = self.rollout[1:] if self.rollout.step else self.rollout[1:-1]  # the format before there were ramps
        rollout = [msgspec.to_builtins(self.rollout.settings), *since]
        sums = [list(self.both.baseline), list(self.both.ranker), preference]
        return [rollout, *sums, self.moments, self._every, self.order.pack()]

    def unpack(self, packed: Sequence[Any]) -> None:
        """Restore the state that was packed; ValueError for other data."""
        if not packed:
            return
        (settings, *rest), baseline, ranker, (sessions, total, capital), moments, every, *order = packed
        try:
            self.rollout = Rollout(msgspec.convert(settings, RolloutSettings), *rest)
        except msgspec.ValidationError as error:
            raise ValueError(f"snapshot: not one ({error})") from error
        self._begin()
        self.both.baseline, self.both.ranker = Arm(*baseline), Arm(*ranker)
        self.preference.sessions, self.preference.total = sessions, total
        self.preference.capital = np.frombuffer(capital, "<f8").reshape(self.preference.capital.shape).astype(np.float64)
        self.moments = [Moment(n, Arm(*one), Arm(*other), *more) for n, one, other, *more in moments]
        self._every = every
        if order:  # older snapshots have none
            self.order.unpack(order[0])
