"""The models that can be fitted: their statistics of a log, their fitted parameters, and scoring a log with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank.logs.fit import climb
from recurrank.logs.fit.chain import Chain, Tails, tails_of
from recurrank.logs.fit.click_chain import ClickChainCounts
from recurrank.logs.fit.composite import Composite
from recurrank.logs.fit.predict import score_chain, score_product
from recurrank.logs.fit.product import Product, collapse, last_clicks
from recurrank.logs.sessions import EMPTY, Codes, Counts, Marks, Pairs, Sessions, code_pairs, pairs_of, translate

NAMES = ("pbm", "cm", "dcm", "sdbn", "dbn", "ccm", "ubm")
"""Every model that can be fitted, by its short name."""


WEAK = 0.1
"""Strength of the priors for counts, in observations: it only keeps probabilities off 0 and 1."""


PART_QUERIES, PART_PAGES, WORTH = 100, 20_000, 4
"""Priors are learned on at least so many queries and pages, if that is less than a ``WORTH``-th of the log."""


class Pages(NamedTuple):
    """A log as the models see it: items are pairs of a query and an item, and every page has a query from 0 to Q - 1.

    If all queries share attractions, there is only one query.
    """

    pairs: Pairs
    items: Codes
    clicks: Marks
    lengths: Ints
    query: Codes
    queries: int
    tails: Tails | None = None

    def part(self) -> Pages | None:
        """The pages of some queries, enough to learn priors from; None if the log is not much larger."""
        every = min(self.queries // PART_QUERIES, len(self.query) // PART_PAGES)
        if every < WORTH:
            return None
        rows = np.flatnonzero(self.query % every == 0)
        return self._replace(
            items=self.items[rows], clicks=self.clicks[rows], lengths=self.lengths[rows], query=self.query[rows], tails=None
        )


class Scores(NamedTuple):
    """Log-probabilities of a log under a model: by page, and sums by position (see ``predict.py``)."""

    pages: Floats
    positions: Floats


@dataclass
class FittedModel:
    """A click model fitted to a log. Arrays by query have an extra row, for queries that are not in the log.

    Attributes:
        name: pbm, cm, dcm, sdbn, dbn, ccm or ubm.
        query: the query of each pair.
        attraction: one per pair of a query and an item.
        unseen: by query, the attraction of an item that is not in the log.
        behaviour: the other parameters by name; shape (Q + 1, ...).
        satisfaction: one per pair, in the dynamic Bayesian models.
        unseen_satisfaction: of an item that is not in the log.
        slip: the probability of a click below the first one in the cascade model.
        parameters: the effective number of free parameters.
        likelihood: the maximum of the log-likelihood on the log that it was fitted to, in nats.
        way: the course of the maximisation.
        seconds: the time of fitting, without compilation.
        likeliest: for a model that is fitted to pages and positions at once, the fit to pages alone, which is used to choose
            the best model by likelihood.

    """

    name: str
    query: Codes
    attraction: Floats
    unseen: Floats
    behaviour: dict[str, Floats]
    satisfaction: Floats | None = None
    unseen_satisfaction: float = 0.5
    slip: float = 0.0
    parameters: float = 0.0
    likelihood: float = 0.0
    way: climb.Climb = field(default_factory=lambda: climb.Climb([]))
    seconds: float = 0.0
    likeliest: FittedModel | None = None

    def score(self, items: Codes, clicks: Marks, lengths: Ints, query: Codes) -> Scores:
        """Log-probabilities of the clicks on pages; items in terms of pairs, -2 for one that is not in the log."""
        scores = Scores(np.zeros(len(items)), np.zeros((3, items.shape[1])))
        if self.name in ("pbm", "ubm"):
            table = self.behaviour["examination"]
            browsing = self.name == "ubm"
            score_product(items, clicks, lengths, query, browsing, self.attraction, self.unseen, table, *scores)
        else:
            score_chain(items, clicks, lengths, query, self.attraction, self.unseen, *self.going_on(), self.slip, *scores)
        return scores

    def going_on(self) -> tuple[Floats, Floats, bool, Floats]:
        """For a chain, the probability of going on after a click (by pair, or by query and position), and after a skip."""
        rows = len(self.unseen)
        if self.name == "cm":
            return np.zeros(len(self.attraction)), np.zeros(rows), False, np.ones(rows)
        if self.name == "dcm":
            return self.behaviour["continuation"].ravel(), np.zeros(rows), True, np.ones(rows)
        if self.name == "ccm":
            alpha1, alpha2, alpha3 = (self.behaviour[f"alpha{number}"][:, 0] for number in (1, 2, 3))
            r = self.attraction
            stay = alpha2[self.query] * (1 - r) + alpha3[self.query] * r
            return stay, alpha2 * (1 - self.unseen) + alpha3 * self.unseen, False, alpha1
        assert self.satisfaction is not None
        onward = self.behaviour["continuation"][:, 0]
        return (1 - self.satisfaction) * onward[self.query], (1 - self.unseen_satisfaction) * onward, False, onward


def pages_of(sessions: Sessions, shared: bool = False) -> Pages:
    """A log with attractions by query, or shared by all queries."""
    pairs, items = pairs_of(sessions, shared)
    query = np.zeros(len(sessions), np.int32) if shared else sessions.query
    return Pages(pairs, items, sessions.clicks, sessions.lengths, query, 1 if shared else len(sessions.query_ids))


def held_out(sessions: Sessions, fitted: Sessions, pages: Pages) -> tuple[Codes, Marks, Ints, Codes]:
    """Pages of another log (or another part of the same) in terms of the pairs that models were fitted to."""
    missing = pages.items.shape[1] - sessions.positions
    if missing < 0:
        raise ValueError(f"test: pages of {sessions.positions} positions; the models are fitted to {pages.items.shape[1]}")
    same = sessions.query_ids is fitted.query_ids and sessions.item_ids is fitted.item_ids
    query_of = np.arange(len(sessions.query_ids), dtype=np.int32) if same else translate(sessions.query_ids, fitted.query_ids)
    item_of = np.arange(len(sessions.item_ids), dtype=np.int32) if same else translate(sessions.item_ids, fitted.item_ids)
    items = code_pairs(sessions, pages.pairs, query_of, item_of)
    clicks = sessions.clicks
    if missing:
        items = np.pad(items, ((0, 0), (0, missing)), constant_values=EMPTY)
        clicks = np.pad(clicks, ((0, 0), (0, missing)))
    query = query_of[sessions.query]
    query = np.zeros_like(query) if pages.pairs.shared else np.where(query < 0, pages.queries, query).astype(np.int32)
    return items, clicks, sessions.lengths, query


def fit_model(name: str, pages: Pages, tolerance: float) -> FittedModel:
    """One model, fitted."""
    began = perf_counter()
    model, part = _statistics(name, pages), pages.part()
    way = climb.fit(model, tolerance, rehearsal=None if part is None else _statistics(name, part))
    likelihood, likeliest = model.expect(way.values)[0], None
    if name in ("dcm", "sdbn"):
        assert isinstance(model, Chain)
        likeliest = _fitted(name, model, way, pages)
        both = Composite(model, pages.items, pages.clicks, pages.lengths, pages.query)
        way.then(climb.climb(both, way.values, tolerance, climb.ROUNDS))
    fitted = _fitted(name, model, way, pages)
    fitted.likeliest = likeliest
    fitted.parameters = sum(family.parameters for family in model.families)
    if name == "cm":
        below = float((pages.lengths - _first_click_ends(pages)).sum())
        slips = float(pages.clicks.sum() - (pages.clicks.any(axis=1)).sum())
        fitted.slip = (slips + 0.5) / (below + 1)
        fitted.parameters += 1
        likelihood += slips * np.log(fitted.slip) + (below - slips) * np.log1p(-fitted.slip)
    fitted.likelihood, fitted.way, fitted.seconds = likelihood, way, perf_counter() - began
    return fitted


def with_tails(pages: Pages, names: Sequence[str]) -> Pages:
    """The same pages with their tails, if one of the models needs them, so that they are collected only once."""
    if not {"dcm", "sdbn", "dbn", "ccm"} & set(names):
        return pages
    return pages._replace(tails=tails_of(pages.items, pages.clicks, pages.lengths, pages.query))


def _statistics(name: str, pages: Pages) -> climb.Expects:
    """The statistics of a log for a model."""
    shown, queries = (pages.items, pages.clicks, pages.lengths), (pages.query, pages.queries, pages.pairs.query)
    match name:
        case "pbm" | "ubm":
            return _product(pages, browsing=name == "ubm")
        case "ccm":
            return ClickChainCounts(*shown, *queries, tails=pages.tails)
        case "cm":
            return Chain(pages.items, pages.clicks, _first_click_ends(pages), *queries, "always", False)
        case "dcm" | "sdbn" | "dbn":
            satisfied = "position" if name == "dcm" else "item"
            return Chain(*shown, *queries, satisfied, gives_up=name == "dbn", tails=pages.tails)
    raise ValueError(f"models: {name!r} is unknown; choose from {', '.join(NAMES)}")


def fit_counts(counts: Counts, tolerance: float) -> tuple[Pairs, FittedModel]:
    """The position-based model, fitted to counts by maximum likelihood, without priors or a test part."""
    began = perf_counter()
    keys, pair = np.unique(counts.query.astype(np.int64) * len(counts.item_ids) + counts.item, return_inverse=True)
    pairs = Pairs((keys // len(counts.item_ids)).astype(np.int32), (keys % len(counts.item_ids)).astype(np.int32), False)
    shown = counts.impressions.astype(np.float64)
    clicked = np.minimum(counts.clicks, counts.impressions).astype(np.float64)  # an impression counts one click at most
    queries = len(counts.query_ids)
    model = Product(
        pair.astype(np.int32), counts.position, counts.query, shown, clicked, pairs.query, counts.positions, queries
    )
    for family in model.families:
        family.strength = WEAK
    way = climb.fit(model, tolerance, learn_priors=False)
    empty = np.zeros((0, counts.positions), np.int32)
    none = Pages(pairs, empty, empty.astype(np.uint8), np.empty(0, np.int64), np.empty(0, np.int32), queries)
    fitted = _fitted("pbm", model, way, none)
    fitted.likelihood, fitted.way = model.expect(way.values)[0], way
    fitted.parameters = len(pairs) + queries * counts.positions
    fitted.seconds = perf_counter() - began
    return pairs, fitted


def _product(pages: Pages, browsing: bool) -> Product:
    positions = pages.items.shape[1]
    if browsing:
        cells, cell = positions * positions, last_clicks(pages.clicks, pages.lengths)
    else:
        cells, cell = positions, np.arange(positions, dtype=np.int32)[None, :]
    counts = collapse(pages.items, cell, pages.clicks, len(pages.pairs), cells)
    return Product(counts[0], counts[1], pages.pairs.query[counts[0]], *counts[2:], pages.pairs.query, cells, pages.queries)


def _first_click_ends(pages: Pages) -> Ints:
    """Lengths of pages cut off after their first click."""
    clicked = pages.clicks.any(axis=1)
    ends: Ints = np.where(clicked, np.argmax(pages.clicks, axis=1) + 1, pages.lengths)
    return ends


def _fitted(name: str, model: climb.Expects, way: climb.Climb, pages: Pages) -> FittedModel:
    """The fitted model from the values of its families, with a last row for queries that are not in the log."""
    queries = pages.queries
    values = {family.name: value for family, value in zip(model.families, way.values, strict=True)}
    priors = {family.name: family for family in model.families}
    by_query = priors["attraction"].mean
    fitted = FittedModel(name, pages.pairs.query, values["attraction"], np.r_[by_query, by_query.mean()], {})
    for family in model.families[1:]:
        if family.name == "satisfaction" and name != "dcm":
            fitted.satisfaction, fitted.unseen_satisfaction = values[family.name], float(family.mean[0])
            continue
        table = values[family.name].reshape(queries, -1)
        other = np.broadcast_to(family.mean, table.shape[1])
        table = np.vstack([table, table[0] if queries == 1 else other])
        fitted.behaviour[family.name] = table
    if name == "dcm":
        fitted.behaviour = {"continuation": 1 - fitted.behaviour["satisfaction"]}
    if name == "sdbn":
        fitted.behaviour["continuation"] = np.ones((queries + 1, 1))
    return fitted
