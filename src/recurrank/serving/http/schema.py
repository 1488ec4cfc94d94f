"""What goes over the wire. Unknown fields are refused, so that a misspelt one is not silently without effect."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from recurrank.serving.spec import RankerSpec

END = r"(?![\s\S])"
"""The end of a text in a pattern. Python's ``$`` also matches before a last newline; ``\\Z`` is not in JSON Schema."""
SlateId = Annotated[str, Meta(min_length=1, max_length=128, pattern=rf"^[\x21-\x7e]+{END}", description="printable, no spaces")]
Name = rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,63}}{END}"
"""Of rankers."""


class NewItem(Struct, forbid_unknown_fields=True):
    """An item of the catalogue."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]
    features: Annotated[list[float], Meta(min_length=1, max_length=4096)]


class NewRanker(RankerSpec, frozen=True, kw_only=True):
    """A ranker to be made: its settings, and its items."""

    items: Annotated[list[NewItem], Meta(min_length=1, max_length=200_000, description="more as a file")]


class Created(Struct):
    """Whether it is new (or was there already, the very same)."""

    name: str
    created: bool


class AskSlate(Struct, forbid_unknown_fields=True):
    """What to call the slate: the same id again gives the same slate. Without one the server chooses."""

    slate: SlateId | None = None
    propensity: Annotated[bool, Meta(description="whether to tell how probable what is shown was")] = False


class RankedSlate(Struct, omit_defaults=True):
    """A slate to show, best item first. ``version`` is the event up to which the ranking knows the log.

    ``propensity`` and ``joint``, if asked for and known: the probabilities of each item at its position and of the whole slate.
    """

    slate: str
    items: list[str]
    version: int
    propensity: list[float | None] | None = None
    joint: float | None = None


class NewReport(Struct, forbid_unknown_fields=True):
    """Clicks on a slate. ``final`` is false while more may come."""

    slate: SlateId
    clicks: Annotated[list[Annotated[int, Meta(ge=-(2**31), le=2**31)]], Meta(max_length=1000, description="positions, from 0")]
    final: bool = True


class Reported(Struct):
    """What became of a report."""

    slate: str
    status: Literal["learned", "open", "duplicate", "late", "unknown", "invalid"]


class Block(Struct):
    """Neighbouring positions, counted from 0, and how many items compete for them; phase and progress are RecurRank's."""

    id: int
    phase: int | None
    first: int
    last: int
    items: int
    progress: float | None


class Best(Struct):
    """A leading item, with the 95 % interval of its click rate."""

    id: str
    shown: int
    clicked: int
    low: float
    high: float


class RankerStatus(Struct):
    """What is known about a ranker. Rates are of the slates that were learned from."""

    name: str
    algorithm: str
    items: int
    dim: int
    positions: int
    rounds: int
    window_seconds: float
    unreported: str
    version: int
    served: int
    learned: int
    dropped: int
    clicks: int
    open: int
    click_rate: float | None
    click_rate_by_position: list[float] | None
    blocks: list[Block] | None
    best: list[Best]


class RankerLine(Struct):
    """A ranker in the list of all."""

    name: str
    algorithm: str
    items: int
    positions: int
    served: int
    learned: int
    open: int
    click_rate: float | None


class Health(Struct):
    """``status`` is ok; ``learning`` whether this server is the one that learns; ``lag`` the events it has yet to fold.

    ``failed`` is why it does not learn though it should; ``broken`` names the rankers whose log cannot be folded.
    """

    status: str
    learning: bool
    lag: int
    failed: str | None = None
    broken: list[str] = []


class Problem(Struct):
    """What went wrong (RFC 9457)."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
