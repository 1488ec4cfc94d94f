"""A simulated user meets a slate: the clicks, and the regret of the ranking, round by round.

Loops over rounds call :func:`meet`. A compiled model is called by the address of its functions, so that no loop is compiled for
a pair of ranker and click model. Only a state that :class:`Packed` cannot write (``factored``, with a user's function) is
compiled into the loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from recurrank._addresses import Call, Packed, call
from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import PART, addressed, interpreted
from recurrank.clicks.model import ClickModel, account, examine, sample


class Meeting(NamedTuple):
    """The state of the users of a loop. Each user draws from ``rng``; ``lost[k]`` grows by v(A*, k) - v(A, k)."""

    state: Any  # of the click model
    items: Ints  # (K,) the slate
    rng: Any
    clicks: Bools  # (K,) the answer
    chi: Floats  # (K,)
    best: Floats  # (K,) v(A*, k)
    lost: Floats  # (K,)


class Users:
    """The users of a compiled click model; compiled loops take ``compiled``."""

    def __init__(self, model: ClickModel, meeting: Meeting) -> None:
        kind = type(model)
        try:
            self._packed = Packed(meeting)
            entry = _entry(kind.compiled_examine, kind.compiled_sample, kind.compiled_meet)
            self.compiled: Call | Meeting = self._packed.call(entry)
        except TypeError:
            self.compiled = meeting


def in_python(model: ClickModel, meeting: Meeting) -> Callable[[], int]:
    """The function that a loop in Python calls for each user, for rankers or models that are not compiled."""
    kind, (state, items, rng, clicks, chi, best, lost) = type(model), meeting

    def meet_one() -> int:
        if state is None:
            chi[:], clicks[:] = model.examine(items), model.sample(items, rng)
        else:
            kind.compiled_examine(state, items, chi)
            kind.compiled_sample(state, items, rng, clicks)
        return int(interpreted(account)(model, items, clicks, chi, best, lost))

    return meet_one


@functools.cache
def _entry(examines: Any, samples: Any, meets: Any) -> Any:
    """A function to call by its address, which calls the functions of a model."""

    def own(pointer: Any) -> int:
        m = pointer[0]
        return int(meets(m.state, m.items, m.rng, m.clicks, m.chi, m.best, m.lost))

    def general(pointer: Any) -> int:
        m = pointer[0]
        examines(m.state, m.items, m.chi)
        samples(m.state, m.items, m.rng, m.clicks)
        return int(account(m.state, m.items, m.clicks, m.chi, m.best, m.lost))

    return addressed(general if meets is None else own)


def meet(users: Any) -> int:
    """Let the next user meet the slate; return the number of clicks."""
    return int(users())


@overload(meet, jit_options=PART, strict=False)
def _meet(users: Any) -> Any:
    if users.instance_class is Call:
        return lambda users: call(users)

    def within(users: Any) -> int:
        examine(users.state, users.items, users.chi)
        sample(users.state, users.items, users.rng, users.clicks)
        return account(users.state, users.items, users.clicks, users.chi, users.best, users.lost)

    return within
