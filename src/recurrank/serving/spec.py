"""The specification of a ranker, shared by JSON bodies, queries, the log, the demo and the form."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from recurrank.catalogue import Catalogue
from recurrank.rankers import DEFAULT
from recurrank.rankers.engines.anchoring import strata_per_segment
from recurrank.rankers.ranker import RULES, registered
from recurrank.rankers.request import joint_size
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.rankers.restocking import Restocking
from recurrank.serving.experiment import RolloutSettings

STREAMS = RULES
"""How new rankers derive their random stream and decide (``LoggedSpec.streams``)."""

_OWN_FIELDS = ("name", "features", "positions", "rounds", "seed", "dim")
"""Arguments of every ranker that are fields of the specification, not options."""

LARGEST = 64 << 20
"""Most bytes of one segment of a ranker of requests; they grow with the squares of positions and features."""


class RankerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a ranker, without its catalogue. The order of the fields is in the log's digests."""

    algorithm: Annotated[str, Meta(max_length=64, description="see `recurrank rankers`")] = DEFAULT
    positions: Annotated[int, Meta(ge=1, le=1000, description="K, how many items a slate shows")]
    rounds: Annotated[int, Meta(ge=1, le=10**15, description="T, how many slates are planned")] = 1_000_000
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    window_seconds: Annotated[float, Meta(gt=0, le=31_536_000, description="how long reports are waited for")] = 1800.0
    unreported: Annotated[
        Literal["drop", "no_click"], Meta(description="what a slate counts as that nobody reported on in its window")
    ] = "drop"
    options: Annotated[dict[str, Any], Meta(max_length=20, description="the algorithm's own")] = {}
    explore_uniform: Annotated[
        float,
        Meta(ge=0, le=1, description="the share of slates drawn uniformly: on such a log any ranking can be evaluated"),
    ] = 0.0

    dim: (
        Annotated[
            int, Meta(ge=1, le=4096, description="how many features a candidate has, of a ranker of requests without items")
        ]
        | None
    ) = None
    rollout: Annotated[
        RolloutSettings | None, Meta(description="the mode that it begins in; by default everybody gets its slates")
    ] = None

    @property
    def takes_requests(self) -> bool:
        """Whether every request may have candidates of its own."""
        kind = registered().get(self.algorithm)
        return kind is not None and issubclass(kind, RequestRanker)

    @property
    def items_change(self) -> bool:
        """Whether its items may come and go."""
        kind = registered().get(self.algorithm)
        return kind is not None and issubclass(kind, RequestRanker | Restocking)

    def plain(self) -> RankerSpec:
        """Only the settings, without the fields of subclasses."""
        return RankerSpec(**{name: getattr(self, name) for name in RankerSpec.__struct_fields__})

    def check_size(self, dim: int) -> None:
        """Raise ValueError for a ranker of requests that would take too much memory with items of ``dim`` features."""
        if self.takes_requests:
            context = self.options.get("context", 0)
            visitor = context if isinstance(context, int) and 0 <= context <= 10_000 else 0
            width = joint_size(dim, visitor, self.options.get("interactions", "none")) + 2
            size = 8 * strata_per_segment(self.positions) * width * width
            if size > LARGEST:
                raise ValueError(
                    f"positions: {self.positions} positions and {width - 2:,} joint features take {size >> 20:,} MB per "
                    f"segment, more than {LARGEST >> 20}; give fewer of either"
                )

    def check_served(self) -> None:
        """Raise ValueError for a ranker that a service does not offer."""
        for name in self.options:
            if name in _OWN_FIELDS:
                raise ValueError(f"options: {name!r} is not an option of the algorithm; give it beside the options")
        kind = registered().get(self.algorithm)
        if self.takes_requests and self.explore_uniform > 0:
            raise ValueError("explore_uniform: a ranker of requests draws no uniform slates; give 0")
        if self.dim is not None and not self.takes_requests:
            raise ValueError(
                f"dim: {self.algorithm!r} needs items; a ranker without them is one of requests, such as 'anchored'"
            )
        if kind is not None and self.explore_uniform > 0 and not kind.takes_any_slate():
            raise ValueError(f"explore_uniform: {self.algorithm!r} cannot tell how probable a uniform slate is; give 0")
        if kind is not None and kind.not_served:
            raise ValueError(f"algorithm: {self.algorithm!r} {kind.not_served}; it is not served, choose another one")


class LoggedSpec(RankerSpec, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A specification as it is logged.

    ``streams`` is how the ranker's random stream follows from its seed: ``STREAMS`` by name (``seeds.py``), 1 in version 0.1.0.
    It also is the version of the rules by which the ranker decides (``rankers.ranker.RULES``).
    """

    streams: int = 1

    @classmethod
    def of(cls, spec: RankerSpec) -> LoggedSpec:
        """The specification of a new ranker as it will be logged; ValueError if it could not be read back."""
        try:
            return msgspec.convert({**msgspec.to_builtins(spec), "streams": STREAMS}, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"spec: {error}") from error

    def pack(self) -> bytes:
        """The specification as bytes, equal for equal ones; without ``streams`` if it is 1, as version 0.1.0 wrote it."""
        fields = msgspec.to_builtins(self.plain() if self.streams == 1 else self, order="deterministic")
        if not self.explore_uniform:
            del fields["explore_uniform"]  # older logs have no such field
        if self.dim is None:
            del fields["dim"]  # as above
        if self.rollout is None:
            del fields["rollout"]
        return msgspec.json.encode(fields)

    @classmethod
    def unpack(cls, stored: bytes) -> LoggedSpec:
        """The specification that was packed."""
        return msgspec.json.decode(stored, type=cls)

    def digests(self, catalogue: Catalogue) -> list[str]:
        """Digests that recognise a repeated request: as this version stores it, and as version 0.1.0 did."""
        versions = (self, msgspec.structs.replace(self, streams=1))
        return [hashlib.sha256(spec.pack() + catalogue.fingerprint.encode()).hexdigest() for spec in versions]
