"""``rr.fit``: click models fitted to a log, scored on a held-out part of it, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from recurrank._arrays import Floats, Ints
from recurrank.logs.fit.models import NAMES, FittedModel, Pages, fit_counts, fit_model, held_out, pages_of, with_tails
from recurrank.logs.fit.result import NEGLIGIBLE, SURE, Fit, Row
from recurrank.logs.reading import read
from recurrank.logs.sessions import Counts, Sessions

PREFERRED = ("cm", "dcm", "pbm", "sdbn", "ccm", "dbn", "ubm")
"""Order of preference among models that explain a log equally well with equally many parameters."""
SLOWEST = ("ubm", "ccm", "sdbn", "dcm", "dbn", "pbm", "cm")
"""Models by the time of fitting, longest first: fitted in this order, so that threads end together."""
MANY = 100_000
"""Most pages of a query among which its most frequent one is searched."""
TOLERANCE = 1e-7
"""Gain in nats per observation at which a climb ends."""


def fit(
    log: Any,
    models: str | Sequence[str] = NAMES,
    *,
    test: Any = None,
    split: str | None = None,
    share: float = 0.25,
    shared: bool = False,
    seed: int = 0,
    jobs: int = 2,
) -> Fit:
    """Fit click models to a log and find the one that explains it best.

    Args:
        log: a file, a data frame, or :class:`~recurrank.logs.sessions.Sessions`. If it has ``seen``, positions that were
            not on the screen are ignored.
        models: which of pbm, cm, dcm, sdbn, dbn, ccm and ubm; names, or one text separated by commas.
        test: a log to test on; by default a part of ``log``, see ``split``.
        split: "time" (test on the last pages; the default if the log has times), "random" (the default otherwise), or
            "none": then scores are those of the log that was fitted to.
        share: the share of the pages to test on.
        shared: one attraction per item over all queries, instead of one per query and item.
        seed: the seed of a random split.
        jobs: threads; each fits one model at a time.

    >>> import numpy as np
    >>> from recurrank.logs.sessions import Sessions
    >>> rng = np.random.default_rng(0)
    >>> items = np.argsort(rng.random((2000, 4)), axis=1).astype(np.int32)
    >>> clicks = (rng.random((2000, 4)) < np.array([0.8, 0.5, 0.3, 0.1])[items] * [1, 0.6, 0.4, 0.2]).astype(np.uint8)
    >>> log = Sessions(np.zeros(2000, np.int32), items, clicks, [""], list("abcd"))
    >>> found = fit(log, "pbm,cm")
    >>> found.best
    'pbm'
    >>> models = found.models()  # by name and query; item_ids[query][i] is the id of their item i
    >>> [models.item_ids[""][i] for i in np.argsort(-models["pbm"][""].attraction)]
    ['a', 'b', 'c', 'd']

    """
    names = _names(models)
    given = read(log)
    if not given.clicks.any():
        raise ValueError("log: no clicks in it; click models need some, so check the column of clicks")
    if isinstance(given, Counts):
        return _fit_counts(given, names, test)
    given = given.on_screen()
    if test is not None:
        trained, held, tested = given, read(test), "the test log"
        if isinstance(held, Counts):
            raise ValueError("test: the log has counts by position and no pages; give a log of pages")
        held = held.on_screen()
    elif split == "none":
        trained, held, tested = given, given, "the log that it was fitted to"
    else:
        how = split or ("random" if given.time is None else "time")
        trained, held = given.split(how, share, seed)
        tested = f"the last {share:.0%} of the pages" if how == "time" else f"a random {share:.0%} of the pages"
    return _fit_sessions(trained, held, names, tested, shared, jobs)


def _names(models: str | Sequence[str]) -> list[str]:
    names = [name.strip().lower() for name in (models.split(",") if isinstance(models, str) else models)]
    names = list(dict.fromkeys(name for name in names if name))
    for name in names or [""]:
        if name not in NAMES:
            raise ValueError(f"models: {name!r} is unknown; choose from {', '.join(NAMES)}")
    return names


def _fit_sessions(trained: Sessions, held: Sessions, names: list[str], tested: str, shared: bool, jobs: int) -> Fit:
    pages = with_tails(pages_of(trained, shared), names)
    test = held_out(held, trained, pages)
    _compile(names)
    # one thread of BLAS: its other threads spin between the small products here, ten times the processor time
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(max(1, min(jobs, len(names)))) as pool:
        longest = sorted(names, key=SLOWEST.index)
        results = dict(zip(longest, pool.map(lambda name: fit_model(name, pages, TOLERANCE), longest), strict=True))
    fitted = {name: results[name] for name in names}
    lengths = test[2]
    by_page: dict[str, Floats] = {}
    judged: dict[str, Floats] = {}
    rows = []
    for name, model in fitted.items():
        scores = model.score(*test)
        by_page[name] = scores.pages
        judged[name] = scores.pages if model.likeliest is None else model.likeliest.score(*test).pages
        shown = scores.positions[2] > 0
        unconditional, conditional, count = scores.positions[:, shown]
        by_position = 2.0 ** (-unconditional / count / np.log(2))
        rows.append(
            Row(
                name,
                float(scores.pages.sum() / lengths.sum()),
                float(by_position.mean()),
                by_position.tolist(),
                (2.0 ** (-conditional / count / np.log(2))).tolist(),
                0.0,
                0.0,
                model.parameters,
                model.seconds,
            )
        )
    rows.sort(key=lambda row: -row.log_likelihood)
    compared = []
    for row in rows:
        behind, error = _behind(by_page[rows[0].model], by_page[row.model], lengths)
        compared.append(row._replace(behind=behind, error=error))
    likeliest = max(judged.values(), key=np.sum)
    doubts = {name: _behind(likeliest, own, lengths) for name, own in judged.items()}
    best = _choose(doubts, fitted, float(pages.lengths.sum()))
    return Fit(compared, best, tested, fitted, pages.pairs, trained.query_ids, trained.item_ids, len(trained), _typical(pages))


def _behind(first: Floats, second: Floats, lengths: Ints) -> tuple[float, float]:
    """The lag of the second model's log-likelihood per position behind the first one's, and its standard error."""
    difference, positions = first - second, lengths.sum()
    return float(difference.sum() / positions), float(difference.std() * np.sqrt(len(difference)) / positions)


def _choose(doubts: Mapping[str, tuple[float, float]], fitted: Mapping[str, FittedModel], observations: float) -> str:
    """Of the models that are not significantly worse on the test part, the one with the best Bayesian information criterion.

    Models often contain each other, and then explain a log equally well up to chance. Ties of the criterion are decided by
    the order of :data:`PREFERRED`.
    """
    equal = [name for name, (behind, error) in doubts.items() if behind <= max(SURE * error, NEGLIGIBLE)]
    penalty = np.log(observations)
    criterion = {name: fitted[name].parameters * penalty - 2 * fitted[name].likelihood for name in equal}
    least = min(criterion.values())
    return min((name for name in equal if criterion[name] <= least + penalty / 2), key=PREFERRED.index)


def _fit_counts(counts: Counts, names: list[str], test: Any) -> Fit:
    if test is not None:
        raise ValueError("test: a log of counts is scored on itself; give no other to test on")
    if names != ["pbm"] and set(names) != set(NAMES):
        raise ValueError("models: counts by position are enough for pbm only; give a log of pages for the others")
    with threadpool_limits(1, "blas"):
        pairs, model = fit_counts(counts, TOLERANCE / 100)
    total = counts.impressions.sum()
    pair_of = {(int(q), int(i)): n for n, (q, i) in enumerate(zip(pairs.query, pairs.item, strict=True))}
    pair = np.array([pair_of[int(q), int(i)] for q, i in zip(counts.query, counts.item, strict=True)])
    click = model.attraction[pair] * model.behaviour["examination"][counts.query, counts.position]
    logs = counts.clicks * np.log(click) + (counts.impressions - counts.clicks) * np.log1p(-click)
    by_position = np.bincount(counts.position, logs) / np.maximum(np.bincount(counts.position, counts.impressions), 1)
    perplexities = 2.0 ** (-by_position / np.log(2))
    row = Row(
        "pbm",
        float(logs.sum() / total),
        float(perplexities.mean()),
        perplexities.tolist(),
        perplexities.tolist(),
        0.0,
        0.0,
        model.parameters,
        model.seconds,
    )
    tested = "the counts that it was fitted to"
    return Fit(
        [row],
        "pbm",
        tested,
        {"pbm": model},
        pairs,
        counts.query_ids,
        counts.item_ids,
        int(total),
        _typical_counts(counts, pair),
    )


def _typical(pages: Pages) -> tuple[int, Ints]:
    """The query with the most pages, and the pairs on its most frequent page."""
    query = int(np.argmax(np.bincount(pages.query)))
    rows, count = np.unique(pages.items[pages.query == query][:MANY], axis=0, return_counts=True)
    page = rows[np.argmax(count)]
    return query, page[page >= 0].astype(np.int64)


def _typical_counts(counts: Counts, pair: Ints) -> tuple[int, Ints]:
    """The query with the most impressions, and at each position the pair most shown there that is not above."""
    query = int(np.argmax(np.bincount(counts.query, counts.impressions)))
    page: list[int] = []
    for position in range(counts.positions):
        rows = np.flatnonzero((counts.query == query) & (counts.position == position))
        order = rows[np.argsort(-counts.impressions[rows], kind="stable")]
        page += [int(pair[row]) for row in order if pair[row] not in page][:1]
    return query, np.array(page)


def _compile(names: list[str]) -> None:
    """Compile on a log of two pages, so that ``seconds`` is the time of fitting alone."""
    items, clicks = np.array([[0, 1, 2], [2, 1, 0]], np.int32), np.array([[1, 0, 0], [0, 1, 1]], np.uint8)
    tiny = Sessions(np.array([0, 1], np.int32), items, clicks, ["a", "b"], ["x", "y", "z"])
    pages = pages_of(tiny)
    for name in names:
        fit_model(name, pages, 1e-2).score(*held_out(tiny, tiny, pages))
