"""Fitted click models: statistics against literal models, climbs that never fall, parameters that come back, and files."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from tests.naive_logs import page_probability

import recurrank as rr
from recurrank.logs.fit import climb, models
from recurrank.logs.fit.chain import Chain
from recurrank.logs.fit.click_chain import ClickChainCounts
from recurrank.logs.fit.composite import WEIGHT, Composite
from recurrank.logs.fit.models import NAMES, FittedModel, _product, fit_model, held_out, pages_of, with_tails
from recurrank.logs.fit.product import collapse, last_clicks
from recurrank.logs.fit.report import fit
from recurrank.logs.fit.result import Row
from recurrank.logs.sessions import Counts, Sessions

ITEMS, K = 6, 4


def random_log(pages=300, queries=2, seed=0, ragged=True):
    rng = np.random.default_rng(seed)
    items = np.argsort(rng.random((pages, ITEMS)), axis=1)[:, :K].astype(np.int32)
    clicks = (rng.random((pages, K)) < 0.3).astype(np.uint8)
    if ragged:
        short = rng.random(pages) < 0.3
        items[short, -1], clicks[short, -1] = -1, 0
    query = rng.integers(0, queries, pages).astype(np.int32)
    return Sessions(query, items, clicks, [f"q{i}" for i in range(queries)], [f"i{i}" for i in range(ITEMS)])


def statistics(name, pages):
    """A model's statistics of a log, as fit_model makes them."""
    if name in ("pbm", "ubm"):
        return _product(pages, browsing=name == "ubm")
    shown = (pages.items, pages.clicks, pages.lengths)
    if name == "ccm":
        return ClickChainCounts(*shown, pages.query, pages.queries, pages.pairs.query)
    satisfied = "position" if name == "dcm" else "item"
    return Chain(*shown, pages.query, pages.queries, pages.pairs.query, satisfied, name == "dbn")


def literal(name, pages, values):
    """The log-likelihood of a log, page by page."""
    a, total = values[0], 0.0
    for row, q in enumerate(pages.query):
        length = pages.lengths[row]
        page, clicks = pages.items[row, :length], pages.clicks[row, :length]
        extra = {}
        if name in ("pbm", "ubm"):
            table = values[1].reshape(pages.queries, *((K,) if name == "pbm" else (K, K)))[q]
            extra = {"e": table}
            if name == "ubm":  # a short page's "no click yet" is the last column as well
                extra = {"e": [[table[k][j] if j < k else table[k][K - 1] for j in range(K)] for k in range(K)]}
        elif name == "ccm":
            extra = {"alphas": [value[q] for value in values[1:]]}
        else:
            extra["s"] = values[1].reshape(pages.queries, K)[q] if name == "dcm" else values[1]
            extra["g"] = values[2][q] if name == "dbn" else 1.0
        total += np.log(page_probability(name, page, clicks, a, **extra))
    return total


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cm"])
def test_statistics_give_the_likelihood_and_its_gradient(name):
    """By Fisher's identity, expected successes less value times expected trials are the gradient by the logits."""
    pages = pages_of(random_log())
    model = statistics(name, pages)
    rng = np.random.default_rng(1)
    values = [rng.uniform(0.2, 0.8, len(family.parent)) for family in model.families]
    likelihood, expected = model.expect(values)
    assert likelihood == pytest.approx(literal(name, pages, values), rel=1e-10)
    for number, (value, found) in enumerate(zip(values, expected, strict=True)):
        score = found.ones - value * found.trials
        for member in range(0, len(value), max(1, len(value) // 5)):
            up, down = ([v if n != number else moved(v, member, step) for n, v in enumerate(values)] for step in (1e-5, -1e-5))
            slope = (model.expect(up)[0] - model.expect(down)[0]) / 2e-5
            assert score[member] == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", ["dcm", "sdbn"])
def test_the_composite_objective_is_that_of_pages_and_of_positions(name):
    """Marginal click probabilities by adding up all clicks that a page may get; the gradient as above."""
    log = random_log(pages=40)
    log = log.take(np.r_[np.arange(40), np.arange(20)])  # some pages are equal
    log.clicks[45:, 0] = 0
    pages = pages_of(log)
    chain = statistics(name, pages)
    model = Composite(chain, pages.items, pages.clicks, pages.lengths, pages.query)
    rng = np.random.default_rng(1)
    values = [rng.uniform(0.2, 0.8, len(family.parent)) for family in model.families]
    objective, expected = model.expect(values)
    marginal = sum(marginal_literal(name, pages, values, row) for row in range(len(pages.items)))
    assert objective == pytest.approx((1 - WEIGHT) * literal(name, pages, values) + WEIGHT * marginal, rel=1e-10)
    for number, (value, found) in enumerate(zip(values, expected, strict=True)):
        score = found.ones - value * found.trials
        for member in range(len(value)):
            up, down = ([v if n != number else moved(v, member, step) for n, v in enumerate(values)] for step in (1e-5, -1e-5))
            slope = (model.expect(up)[0] - model.expect(down)[0]) / 2e-5
            assert score[member] == pytest.approx(slope, rel=1e-4, abs=1e-5)


def marginal_literal(name, pages, values, row):
    length, q = pages.lengths[row], pages.query[row]
    page, clicks = pages.items[row, :length], pages.clicks[row, :length]
    s = values[1].reshape(pages.queries, K)[q] if name == "dcm" else values[1]
    patterns = np.array(list(itertools.product((0, 1), repeat=length)))
    marginal = np.array([page_probability(name, page, pattern, values[0], s=s, g=1.0) for pattern in patterns]) @ patterns
    return np.log(np.where(clicks, marginal, 1 - marginal)).sum()


def moved(values, member, step):
    theta = logit(values)
    theta[member] += step
    return expit(theta)


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_never_falls_and_the_climb_ends(name):
    fitted = fit_model(name, pages_of(random_log()), 1e-8)
    objective, updates = fitted.way.objective, fitted.way.updates
    assert fitted.way.converged
    for begin, end in itertools.pairwise([0, *updates, len(objective)]):
        part = np.array(objective[begin:end])
        assert (np.diff(part) >= -1e-7).all()
    assert ((fitted.attraction > 0) & (fitted.attraction < 1)).all()


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_literal_probabilities(name):
    log = random_log(pages=60, ragged=False)
    pages = pages_of(log)
    fitted = fit_model(name, pages, 1e-6)
    query, page = 0, pages.items[pages.query == 0][0]
    patterns = np.array(list(itertools.product((0, 1), repeat=K)), np.uint8)
    items = np.repeat(page[None, :], len(patterns), axis=0)
    lengths, queries = np.full(len(patterns), K), np.full(len(patterns), query, np.int32)
    probabilities = np.exp(fitted.score(items, patterns, lengths, queries).pages)
    assert probabilities.sum() == pytest.approx(1)
    if name != "cm":  # whose slips the literal model does not have
        naive = [page_probability(name, page, clicks, fitted.attraction, **arguments(fitted, query)) for clicks in patterns]
        np.testing.assert_allclose(probabilities, naive, rtol=1e-9)
    marginal = probabilities @ patterns
    for k in range(K):
        alone = fitted.score(items[:1], np.eye(K, dtype=np.uint8)[[k]], lengths[:1], queries[:1])
        assert np.exp(alone.positions[0, k]) == pytest.approx(marginal[k])


def arguments(fitted: FittedModel, query):
    if fitted.name == "pbm":
        return {"e": fitted.behaviour["examination"][query]}
    if fitted.name == "ubm":
        return {"e": fitted.behaviour["examination"][query].reshape(K, K)}
    if fitted.name == "ccm":
        return {"alphas": [fitted.behaviour[f"alpha{n}"][query, 0] for n in (1, 2, 3)]}
    if fitted.name == "dcm":
        return {"s": 1 - fitted.behaviour["continuation"][query]}
    return {"s": fitted.satisfaction, "g": fitted.behaviour["continuation"][query, 0]}


def true_model(name, rng, items=12, positions=5):
    a = rng.uniform(0.1, 0.7, items)
    k, j = np.indices((positions, positions))
    return {
        "pbm": lambda: rr.clicks.PositionBased(a, np.linspace(1, 0.3, positions)),
        "cm": lambda: rr.clicks.Cascade(a),
        "dcm": lambda: rr.clicks.DependentClick(a, np.linspace(0.8, 0.4, positions)),
        "sdbn": lambda: rr.clicks.DynamicBayesian(a, rng.uniform(0.1, 0.9, items), 1.0),
        "dbn": lambda: rr.clicks.DynamicBayesian(a, rng.uniform(0.1, 0.9, items), 0.8),
        "ccm": lambda: rr.clicks.ClickChain(a, 0.9, 0.8, 0.2),
        "ubm": lambda: rr.clicks.UserBrowsing(a, np.where(j == positions - 1, 0.9**k, 1 / np.maximum(k - j, 1) ** 0.5)),
    }[name]()


def simulated(model, pages, rng, items=12, positions=5):
    shown = np.argsort(rng.random((pages, items)), axis=1)[:, :positions]
    clicks = np.array([model.sample(page, rng) for page in shown], np.uint8)
    return Sessions(np.zeros(pages, np.int32), shown.astype(np.int32), clicks, ["q"], [str(i) for i in range(items)])


@pytest.mark.parametrize("name", NAMES)
def test_the_model_that_made_a_log_is_found_and_explains_it_as_well_as_the_truth(name):
    """20,000 pages to fit to. The fitted model loses about (parameters / 2) / observations, 20 / 100,000, to the true one."""
    rng = np.random.default_rng(7)
    model = true_model(name, rng)
    log, test = simulated(model, 20_000, rng), simulated(model, 5_000, rng)
    found = fit(log, test=test)
    assert found.best == name
    truth = Sessions(test.query, test.items, test.clicks, ["q"], test.item_ids)
    pages = pages_of(truth)
    ours = next(row.log_likelihood for row in found.rows if row.model == name)
    assert abs(ours - true_likelihood(name, model, truth)) < 5e-4
    assert len(pages.items) == 5_000


def true_likelihood(name, model, log):
    total = 0.0
    for page, clicks in zip(log.items, log.clicks, strict=True):
        extra = {
            "pbm": lambda: {"e": model.examination},
            "ubm": lambda: {"e": model.examination},
            "dcm": lambda: {"s": 1 - model.continuation},
            "ccm": lambda: {"alphas": (model.alpha1, model.alpha2, model.alpha3)},
            "cm": lambda: {},
        }.get(name, lambda: {"s": model.satisfaction, "g": model.continuation})()
        total += np.log(page_probability(name, page, clicks, model.attraction, **extra))
    return total / log.clicks.size


def test_counts_are_those_of_single_impressions():
    log = random_log()
    pages = pages_of(log)
    counted = collapse(pages.items, last_clicks(pages.clicks, pages.lengths), pages.clicks, len(pages.pairs), K * K)
    expected: dict[tuple[int, int], list[int]] = {}
    for items, clicks in zip(pages.items, pages.clicks, strict=True):
        last = K - 1
        for k in range(K):
            if items[k] >= 0:
                both = expected.setdefault((int(items[k]), k * K + last), [0, 0])
                both[0] += 1
                both[1] += clicks[k]
                last = k if clicks[k] else last
    assert {(i, x): [n, c] for i, x, n, c in zip(*(part.tolist() for part in counted), strict=True)} == expected


@pytest.mark.parametrize("name", ["pbm", "sdbn", "ccm"])
def test_priors_learned_on_a_part_of_a_large_log_explain_the_rest_as_well(name, monkeypatch):
    """Priors from a quarter of the queries; the held-out likelihood is the same within 0.003 nats per position."""
    log = random_log(pages=6000, queries=40)
    train, rest = log.split("random", 0.25)
    pages = pages_of(train)
    test = held_out(rest, train, pages)
    whole = fit_model(name, pages, 1e-7).score(*test).pages.sum() / test[2].sum()
    monkeypatch.setattr(models, "PART_QUERIES", 10)
    monkeypatch.setattr(models, "PART_PAGES", 1000)
    assert len(pages.part().items) < len(pages.items) / 3
    rehearsed = fit_model(name, with_tails(pages, [name]), 1e-7).score(*test).pages.sum() / test[2].sum()
    assert rehearsed == pytest.approx(whole, abs=3e-3)


def test_items_and_queries_that_the_log_lacks_have_the_prior_means():
    log = random_log()
    pages = pages_of(log)
    fitted = fit_model("pbm", pages, 1e-6)
    other = Sessions(
        np.zeros(1, np.int32), np.array([[0, 1]], np.int32), np.zeros((1, 2), np.uint8), ["unknown"], ["i0", "unknown"]
    )
    items, clicks, lengths, query = held_out(other, log, pages)
    assert items.tolist() == [[-2, -2, -1, -1]]
    assert query.tolist() == [2]
    score = fitted.score(items, clicks, lengths, query)
    expected = np.log1p(-fitted.unseen[2] * fitted.behaviour["examination"][2, :2]).sum()
    assert score.pages[0] == pytest.approx(expected)


def test_shared_attractions_pool_the_queries():
    found = fit(random_log(), "pbm", split="none", shared=True)
    assert len(found.fitted["pbm"].attraction) == ITEMS
    assert list(found.models()["pbm"]) == ["*"]


def test_a_file_of_fitted_models_comes_back(tmp_path):
    found = fit(random_log(), split="random")
    found.save(tmp_path / "fitted.json")
    loaded = rr.clicks.load(tmp_path / "fitted.json")
    assert list(loaded) == list(NAMES)
    assert loaded.best == found.best
    for name in NAMES:
        model = loaded.model(name, "q1")
        click = model.expected(np.arange(K))
        members = [
            np.flatnonzero((found.pairs.query == 1) & (found.pairs.item == int(i[1:])))[0] for i in loaded.item_ids["q1"]
        ]
        patterns = np.array(list(itertools.product((0, 1), repeat=K)), np.uint8)
        items = np.repeat(np.array(members[:K], np.int32)[None, :], len(patterns), axis=0)
        ones = np.full(len(patterns), K)
        weights = np.exp(found.fitted[name].score(items, patterns, ones, np.ones(len(patterns), np.int32)).pages)
        np.testing.assert_allclose(click, weights @ patterns, atol=0.2 if name == "cm" else 1e-9)  # cm: slips are left out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not a file of fitted click models"),
        ('{"format": "other"}', "format 'other'"),
        ('[{"query": 1, "models": {}}]', "no 'pbm'"),
    ],
)
def test_what_is_not_such_a_file_is_refused(tmp_path, content, said):
    (tmp_path / "fitted.json").write_text(content)
    with pytest.raises(ValueError, match=said):
        rr.clicks.load(tmp_path / "fitted.json")


def test_counts_are_fitted_like_pages(tmp_path):
    """Counts of pages of one query say the same to the position-based model as the pages do."""
    log = random_log(pages=2000, queries=1, ragged=False)
    position = np.broadcast_to(np.arange(K), log.items.shape)
    keys, index = np.unique(log.items.ravel().astype(np.int64) * K + position.ravel(), return_inverse=True)
    counts = Counts(
        np.zeros(len(keys), np.int32),
        (keys // K).astype(np.int32),
        (keys % K).astype(np.int32),
        np.bincount(index),
        np.bincount(index, log.clicks.ravel()).astype(np.int64),
        ["q0"],
        log.item_ids,
    )
    ours, theirs = fit(counts, "pbm").rows[0], fit(log, "pbm", split="none").rows[0]
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, abs=1e-3)
    with pytest.raises(ValueError, match="enough for pbm only"):
        fit(counts, "pbm,cm")


def test_a_report_says_which_model_how_sure_and_what_it_implies():
    rng = np.random.default_rng(3)
    found = fit(simulated(true_model("pbm", rng), 3000, rng), "pbm,cm,dcm")
    assert found.verdict().startswith("pbm explains a random 25% of the pages best; ")
    assert found.assumptions()["cm"] == "satisfies the paper's assumptions"
    assert found.examination("cm")[0] == 1
    left, right = found.figure().axes
    assert (left.get_ylabel(), right.get_ylabel()) == ("perplexity", "probability of examination")
    assert len({(line.get_marker(), line.get_linestyle()) for line in left.lines}) == len(found.rows)
    assert found.to_frame()["model"].tolist() == [row.model for row in found.rows]


@pytest.mark.parametrize(
    ("behind", "error", "said"),
    [
        (0.0, 0.0, "cm explains the log best; dcm, the next, is 0.01000 nats per position behind, 5.0 standard errors"),
        (1e-5, 1e-5, "cm explains the log best; dcm explains it as well (difference -0.00001, 1.0 standard errors)"),
        (
            1e-5,
            2e-6,
            "cm explains the log as well as dcm, with 7 parameters instead of 9 "
            "(difference -0.00001 nats per position, 5.0 standard errors)",
        ),
        (
            1e-3,
            2e-4,
            "cm explains the log as well as dcm, if fitted to pages alone, with 7 parameters instead of 9 "
            "(difference -0.00100 nats per position, 5.0 standard errors)",
        ),
    ],
)
def test_a_verdict_does_not_contradict_itself(behind, error, said):
    """The model that is named may be behind: by chance, by next to nothing, or because it is fitted to more than pages."""

    def row(model, behind, error, parameters):
        return Row(model, -0.5 - behind, 1.4, [], [], behind, error, parameters, 0.1)

    named, other = row("cm", behind, error, 7.0), row("dcm", *((0.0, 0.0) if behind else (0.01, 0.002)), 9.0)
    rows = [other, named] if behind else [named, other]
    assert replace(fit(random_log(), "cm,dcm"), rows=rows, best="cm", tested="the log").verdict() == said


@pytest.mark.parametrize("shared", [False, True])
def test_a_model_numbers_items_as_its_ids_are_listed(shared):
    """A query's model knows the items that were shown for it; the true attractions come back by id."""
    rng, true = np.random.default_rng(5), dict(zip("abcdef", [0.1, 0.6, 0.2, 0.8, 0.4, 0.7], strict=True))
    ids = list(true)
    query = np.repeat(np.arange(2, dtype=np.int32), 3000)
    items = np.array([rng.permutation([5, 3, 1] if q else [4, 2, 0, 3])[:3] for q in query], np.int32)
    clicks = (rng.random(items.shape) < np.array(list(true.values()))[items]).astype(np.uint8)
    models = fit(Sessions(query, items, clicks, ["p", "q"], ids), "pbm", shared=shared).models()
    assert set(models["pbm"]) == ({"*"} if shared else {"p", "q"})
    for asked, model in models["pbm"].items():
        listed = models.item_ids[asked]
        assert sorted(listed) == (ids if shared else ["b", "d", "f"] if asked == "q" else ["a", "c", "d", "e"])
        np.testing.assert_allclose(model.attraction, [true[item] for item in listed], atol=0.05)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"models": "pbm,xyz"}, "'xyz' is unknown"),
        ({"split": "odd"}, "'odd' is unknown"),
        ({"share": 2.0}, r"outside \(0, 1\)"),
    ],
)
def test_bad_settings_are_one_line(settings, said):
    with pytest.raises(ValueError, match=said):
        fit(random_log(), **{"models": "pbm", **settings})


def test_the_published_models_are_read_as_well(tmp_path):
    arguments = {
        "PBM": [[0.5, 0.4], [1.0, 0.5]],
        "DBN": [[0.5, 0.4], [0.3, 0.2], 0.1],
        "UBM": [[0.5, 0.4], [[0, 1], [0.5, 0.4]]],
    }
    query = {"query": 7, "models": {name: {"args": args} for name, args in arguments.items()}}
    (tmp_path / "models.json").write_text(json.dumps([query]))
    loaded = rr.clicks.load(tmp_path / "models.json")
    assert loaded.model("dbn", "7").continuation == pytest.approx(0.9)
    assert loaded.model("ubm").examine([0, 1])[0] == 1


def test_an_extrapolated_climb_ends_where_plain_em_does():
    pages = pages_of(random_log())
    model = statistics("pbm", pages)
    way = climb.climb(model, model.starts()[0], 1e-12, 2000)
    plain = model.starts()[0]
    for _ in range(3000):
        plain = climb._step(model, plain)[1]
    assert way.objective[-1] >= climb._step(model, plain)[0] - 1e-6


def test_a_log_without_clicks_is_refused():
    items = np.array([[0, 1], [1, 0]], np.int32)
    log = Sessions(np.zeros(2, np.int32), items, np.zeros((2, 2), np.uint8), ["q"], ["a", "b"])
    with pytest.raises(ValueError, match="log: no clicks in it"):
        fit(log)
