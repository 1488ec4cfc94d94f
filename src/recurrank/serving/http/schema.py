"""Bodies and answers of the API. Unknown fields are refused, so that a misspelt one is noticed."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from recurrank import __version__
from recurrank.serving.changes import Id, SlateRules
from recurrank.serving.spec import RankerSpec

END = r"(?![\s\S])"
"""The end of a text in a pattern. Python's ``$`` also matches before a last newline; ``\\Z`` is not in JSON Schema."""
SlateId = Annotated[str, Meta(min_length=1, max_length=128, pattern=rf"^[\x21-\x7e]+{END}", description="printable, no spaces")]
Name = rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,63}}{END}"
"""Pattern of the names of rankers."""


class NewItem(Struct, forbid_unknown_fields=True):
    """An item of the catalogue, or a candidate."""

    id: Id
    features: Annotated[list[float], Meta(min_length=1, max_length=4096)]


class NewRanker(RankerSpec, frozen=True, kw_only=True):
    """A new ranker: its settings and its items; a ranker of requests may have ``dim`` instead of items."""

    items: Annotated[list[NewItem], Meta(max_length=200_000, description="more as a file")] = field(default_factory=list)


class Created(Struct):
    """Whether the ranker is new, or the same one existed already."""

    name: str
    created: bool


Candidates = Annotated[
    list[Id | NewItem], Meta(min_length=1, max_length=10_000, description="ids, or objects with `id` and `features`")
]
Packed = Annotated[
    bytes,
    Meta(
        max_length=2 << 20,
        description="of candidates named by ids: little-endian 32- or 64-bit numbers; base64 in JSON",
    ),
]
Context = Annotated[list[float], Meta(max_length=10_000, description="of the visitor")]
Segment = Annotated[
    str, Meta(min_length=1, max_length=200, description="visitors who look at slates alike, such as those with a phone")
]
Subject = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        description="whom the slate is for; subjects keep their arm in an experiment",
    ),
]
Shown = Annotated[int, Meta(ge=1, le=1000, description="how many to show, at most the ranker's")]


class AskSlate(Struct, forbid_unknown_fields=True):
    """What to call the slate: the same id again gives the same slate. Without one the server chooses.

    ``baseline`` and ``subject`` are for rankers that are compared with another ranking (see ``/v1/rankers/{name}/experiment``).
    The other fields are for rankers of requests: this visitor's candidates, by id or with their features; what is known about
    the visitor; and rules for this slate.
    """

    slate: SlateId | None = None
    propensity: Annotated[bool, Meta(description="whether to tell how probable what is shown was")] = False
    candidates: Candidates | None = None
    features: Packed | None = None
    context: Context | None = None
    segment: Segment | None = None
    exclude: Annotated[list[Id], Meta(max_length=10_000, description="candidates that must not be shown")] = []
    pin: Annotated[dict[int, Id], Meta(max_length=1_000, description="what stands at which position, counted from 0")] = {}
    positions: Shown | None = None
    explore: Annotated[float, Meta(ge=0, le=1, description="the share of the usual exploration that is allowed")] = 1.0
    baseline: (
        Annotated[
            list[Id],
            Meta(min_length=1, max_length=10_000, description="the order that would be shown without the ranker, best first"),
        ]
        | None
    ) = None
    subject: Subject | None = None


class ItemsPatch(Struct, forbid_unknown_fields=True):
    """Items to be added, changed (their features) and removed; each item in one of the lists."""

    add: Annotated[list[NewItem], Meta(max_length=20_000)] = []
    change: Annotated[list[NewItem], Meta(max_length=20_000)] = []
    remove: Annotated[list[Id], Meta(max_length=20_000)] = []


class ItemsPatched(Struct):
    """The event of the change, the number of items now, and how many were added, changed and removed."""

    version: int
    items: int
    added: int
    changed: int
    removed: int


class ItemsPage(Struct):
    """Some of a ranker's items; ``next`` is where the next page begins, if there is one."""

    items: list[NewItem]
    total: int
    next: int | None


class RulesSet(Struct):
    """The rules of all slates of a ranker, and the event since which they hold."""

    rules: SlateRules
    version: int


class RankedSlate(Struct, omit_defaults=True):
    """A slate to show, best item first. ``version`` is the event up to which the ranking knows the log.

    ``propensity`` and ``joint``, if asked for and known: the probabilities of each item at its position and of the whole slate.
    In an experiment ``arm`` is whose order it is, in shadow mode ``would_show`` what the ranker would have shown.
    """

    slate: str
    items: list[str]
    version: int
    propensity: list[float | None] | None = None
    joint: float | None = None
    arm: Literal["", "baseline", "ranker", "interleaved"] = ""
    would_show: list[str] | None = None


class NewReport(Struct, forbid_unknown_fields=True):
    """Clicks on a slate. ``final`` is false while more may come; ``seen`` is left out where nobody knows."""

    slate: SlateId
    clicks: Annotated[list[Annotated[int, Meta(ge=-(2**31), le=2**31)]], Meta(max_length=1000, description="positions, from 0")]
    final: bool = True
    seen: (
        Annotated[
            list[Annotated[int, Meta(ge=-(2**31), le=2**31)]],
            Meta(max_length=1000, description="positions that were on the screen; those below teach nothing"),
        ]
        | None
    ) = None


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


class Coefficient(Struct):
    """What a feature does to the attraction, with an interval of two standard deviations; the constant has the feature -1."""

    feature: int
    value: float
    low: float
    high: float


class Examination(Struct):
    """How often a position is looked at, relative to the first; null where nothing was seen."""

    segment: str | None
    position: int
    without_click_above: float | None
    after_click_above: float | None


class RequestBeliefs(Struct):
    """What a ranker of requests believes. ``guard`` is how far it mistrusts lower positions (1: not at all), without and with a
    click above; ``candidates`` how many a request has on average.
    """

    coefficients: list[Coefficient]
    examination: list[Examination]
    guard: list[float]
    candidates: float | None


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
    requests: RequestBeliefs | None = None


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

    ``failed`` is why it does not learn though it should; ``broken`` names the rankers whose log cannot be folded; ``version``
    is that of recurrank.
    """

    status: str
    learning: bool
    lag: int
    failed: str | None = None
    broken: list[str] = []
    version: str = __version__


class Problem(Struct):
    """What went wrong (RFC 9457)."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
