"""Interleaving against A/B when every session has a query: five pairs of rankers that are typical of production.

100 queries with 50 candidates each, 10 features, 10 positions; a session has one of the queries. Attraction is logistic in a
score of the features. The pairs, chosen before anything was measured:

1. ``anchored`` after 20,000 sessions, and after 2,000;
2. ``anchored`` after 2,000 sessions, and after 500;
3. the best order, and the order without the first of the ten features;
4. the best order, and the order by scores with noise (a quarter of their standard deviation);
5. the best order, and the same with two of its ten items exchanged, drawn for each query.

Users leave after a click (cascade), look at position k with probability 1 / k, or do that and click a tenth as often.
Sessions are those within which 80 % of experiments have ended with the right verdict at alpha = 5 %. Team draft uses
``Preference``, checked after every session. A/B uses, for each pair, the better of two tests that hold at all times:
``ArmComparison``, and ``Preference`` of differences (one session of each arm, over the number of positions); both are checked
after every 4 % more sessions, half of which are in each arm. If neither ends within ``LOOKS``, A/B counts as if it ended there.

*Bound*: sessions by signal and noise alone (``v / m^2``) of the best known credit, over A/B's. Credits tried: the team's, and
``g(rank in the second order) - g(rank in the first)`` minus its mean over the coins, valid for any ``g``: the sign, the
rank, its logarithm or square root; all with the best weights of positions, which a test would have to learn. The bound
of the team's credit is that of the credit as it is.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

import recurrank as rr
from benchmarks.measure import Figure, at_most
from recurrank.rollout import Arm, ArmComparison, team_draft
from recurrank.rollout.interleaving import BETS, STAKES, rounds_of

QUERIES, ITEMS, DIM, POSITIONS, RUNS, POWER, ALPHA = 100, 50, 10, 10, 40, 0.8, 0.05
USERS = {"cascade": -3.0, "position-based": -3.0, "position-based, few clicks": -5.5}
"""The constant of the logistic attraction."""
COINS = list(itertools.product((0, 1), repeat=POSITIONS // 2))
LOOKS = np.unique(np.geomspace(25, 50_000_000, 370).astype(np.int64))
"""Sessions per arm after which A/B is checked."""
MOST, CHUNK, SAMPLE = 1_000_000, 10_000, 300_000
"""Sessions of an interleaving: at most, at a time, and for estimating the bound."""
NULLS, NULL_SESSIONS, EVERY = 1_000, 10_000, 100


class Market(NamedTuple):
    """Queries and users."""

    users: str
    features: Any  # (queries, items, dim)
    theta: Any  # (dim,)
    attraction: Any  # (queries, items)

    def click(self, attraction: Any, rng: np.random.Generator) -> Any:
        """Clicks of sessions, one per row of attractions of shown items."""
        if self.users != "cascade":
            return rng.random(attraction.shape) < attraction / np.arange(1, POSITIONS + 1)
        would = rng.random(attraction.shape) < attraction
        return would & (np.cumsum(would, axis=1) == 1)


class Drafts(NamedTuple):
    """All team drafts of two orders, equally probable: lists, and the credit of a click at each position."""

    lists: Any  # (queries, coins, positions)
    credit: Any  # (queries, coins, positions)

    def credits(self, market: Market, count: int, rng: np.random.Generator) -> Any:
        """``Interleaved.credit`` of ``count`` sessions."""
        return self.by_position(market, count, rng).sum(axis=1) / rounds_of(POSITIONS)

    def by_position(self, market: Market, count: int, rng: np.random.Generator) -> Any:
        """Differences of clicks by position of ``count`` sessions."""
        query, coins = rng.integers(QUERIES, size=count), rng.integers(len(COINS), size=count)
        shown = market.attraction[query[:, None], self.lists[query, coins]]
        return market.click(shown, rng) * self.credit[query, coins]


def run() -> list[Figure]:
    """Five pairs for each kind of users; then users without a preference."""
    figures = []
    for users in USERS:
        market = market_of(users)
        figures += [_figure(market, name, *orders) for name, orders in pairs_of(market).items()]
    return [*figures, _false_alarms()]


def market_of(users: str) -> Market:
    rng = np.random.default_rng(7)
    features = rng.normal(size=(QUERIES, ITEMS, DIM)) / np.sqrt(DIM)
    theta = rng.normal(size=DIM)
    theta *= np.sqrt(DIM) / np.linalg.norm(theta)
    return Market(users, features, theta, 1 / (1 + np.exp(-(features @ theta) - USERS[users])))


def pairs_of(market: Market) -> dict[str, tuple[Any, Any]]:
    """Orders of all items for each query, the better ones first."""
    rng, score = np.random.default_rng(11), market.features @ market.theta
    learned = {rounds: _learned(market, rounds) for rounds in (500, 2_000, 20_000)}
    best, exchanged = _order(score), _order(score)
    noisy = _order(score + 0.25 * rng.normal(size=score.shape))
    for order in exchanged:
        two = rng.choice(POSITIONS, 2, replace=False)
        order[two] = order[two[::-1]]
    without = np.where(np.arange(DIM) == 0, 0.0, market.theta)
    return {
        "anchored after 20,000 and 2,000": (learned[20_000], learned[2_000]),
        "anchored after 2,000 and 500": (learned[2_000], learned[500]),
        "best, one feature less": (best, _order(market.features @ without)),
        "best, noise": (best, noisy),
        "best, two of ten exchanged": (best, exchanged),
    }


def _order(score: Any) -> Any:
    return np.argsort(-score, axis=1)


def _learned(market: Market, rounds: int) -> Any:
    """Orders by a ranker's coefficients after learning."""
    ranker, rng = rr.Anchored(dim=DIM, positions=POSITIONS, rounds=20_000, seed=1), np.random.default_rng(3)
    for _ in range(rounds):
        query = int(rng.integers(QUERIES))
        slate = ranker.rank(market.features[query])
        ranker.learn(slate, market.click(market.attraction[query, slate.items][None], rng)[0])
    return _order(market.features @ [own.value for own in ranker.knowledge().coefficients if own.feature >= 0])


def _figure(market: Market, name: str, better: Any, worse: Any) -> Figure:
    chances = [_clicks(market, order) for order in (better, worse)]
    clicks = [float(np.arange(POSITIONS + 1) @ chance) for chance in chances]
    drafts = drafts_of(better, worse)
    sessions, (product, differences) = _interleaved(market, drafts), arms(*chances)
    both, tops = min(product, differences), zip(better[:, :POSITIONS].tolist(), worse[:, :POSITIONS].tolist(), strict=True)
    shared = np.mean([len({*first} & {*second}) for first, second in tops])
    bound, team = _bounds(market, chances, drafts, better, worse)
    detail = (
        f"{sessions:,.0f} of {both:,.0f} sessions (product {product:,.0f}, differences {differences:,.0f}); "
        f"{clicks[0]:.4f} and {clicks[1]:.4f} clicks per slate; {shared:.1f} items in common; "
        f"bound {100 * bound:.1f} %, of the team's credit {100 * team:.1f} %"
    )
    return at_most(f"team draft: {market.users}, {name}", 100 * sessions / both, 10, "% of A/B", detail)


class Given(np.random.Generator):
    """Given coins in place of random ones."""

    def __init__(self, coins: tuple[int, ...]) -> None:
        super().__init__(np.random.PCG64(0))
        self._coins = iter(coins)

    def integers(self, *_: Any, **__: Any) -> Any:
        return next(self._coins)


def drafts_of(first: Any, second: Any) -> Drafts:
    """All drafts of the library, with every coin both ways."""
    lists, credit = np.empty((2, QUERIES, len(COINS), POSITIONS))
    for query, n in np.ndindex(QUERIES, len(COINS)):
        shown = team_draft(first[query], second[query], POSITIONS, Given(COINS[n]))
        lists[query, n], credit[query, n] = shown.items, 2 * shown.share - 1
    return Drafts(lists.astype(np.int64), credit)


def _clicks(market: Market, order: Any) -> Any:
    """The probabilities of 0, 1, ... clicks on a slate of a random query."""
    shown = np.take_along_axis(market.attraction, order[:, :POSITIONS], axis=1)
    if market.users == "cascade":
        none = np.prod(1 - shown, axis=1).mean()
        return np.array([none, 1 - none, *[0.0] * (POSITIONS - 1)])
    return np.mean([click_counts(rates) for rates in shown / np.arange(1, POSITIONS + 1)], axis=0)


def click_counts(rates: Any) -> Any:
    """The probabilities of 0, 1, ... clicks at positions that are clicked independently, at these rates."""
    counts = np.array([1.0])
    for rate in rates:
        counts = np.convolve(counts, [1 - rate, rate])
    return counts


def arms(better: Any, worse: Any) -> tuple[float, float]:
    """Sessions of A/B, both arms, that POWER of the experiments need: by the product of both arms, and by differences.

    ``better`` and ``worse`` are the probabilities of 0, 1, ... clicks on a slate.
    """
    ended = np.array([(_by_product(better, worse, run), _by_differences(better, worse, run)) for run in range(RUNS)])
    product, differences = np.quantile(2.0 * ended, POWER, axis=0, method="higher")
    return float(product), float(differences)


def _by_product(better: Any, worse: Any, run: int) -> int:
    rng, most, before = np.random.default_rng((4, run)), len(better) - 1, 0
    first = second = Arm()
    for look in LOOKS.tolist():
        first, second = (_after(arm, rng.multinomial(look - before, p)) for arm, p in ((first, better), (second, worse)))
        both, before = ArmComparison(most, ALPHA, baseline=second, ranker=first), look
        if both.difference > 0 and both.p_value() <= ALPHA:
            return int(look)
    return int(LOOKS[-1])


def _by_differences(better: Any, worse: Any, run: int) -> int:
    """Bets on the first arm: Preference, one session of each arm at a time."""
    rng, clicks, capital, before = np.random.default_rng((5, run)), np.arange(len(better)), np.zeros(len(BETS)), 0
    growth = np.log1p(np.outer((clicks[:, None] - clicks).ravel() / clicks[-1], BETS))
    chances = np.outer(better, worse).ravel()
    for look in LOOKS.tolist():
        capital, before = capital + rng.multinomial(look - before, chances) @ growth, look
        if evidence(capital) >= np.log(2 / ALPHA):
            return int(look)
    return int(LOOKS[-1])


def _after(arm: Arm, counts: Any) -> Arm:
    """The arm after slates of which ``counts[c]`` have c clicks; the mean before is predicted for them."""
    clicks = np.arange(len(counts))
    deviation = float(counts @ (clicks - arm.mean) ** 2)
    return Arm(arm.slates + int(counts.sum()), arm.clicks + float(counts @ clicks), arm.deviation + deviation)


def evidence(capital: Any) -> Any:
    """The logarithm of the mixtures of ``Preference``; the last axis has the bets."""
    largest = capital.max(axis=-1, keepdims=True)
    return largest[..., 0] + np.log(np.exp(capital - largest) @ STAKES)


def _interleaved(market: Market, drafts: Drafts) -> float:
    """Sessions of team draft that POWER of the experiments need."""
    ended = [_one_interleaving(market, drafts, np.random.default_rng((6, run))) for run in range(RUNS)]
    return float(np.quantile(ended, POWER, method="higher"))


def _one_interleaving(market: Market, drafts: Drafts, rng: np.random.Generator) -> float:
    capital = np.zeros(len(BETS))
    for done in range(0, MOST, CHUNK):
        credit = drafts.credits(market, CHUNK, rng)
        after = capital + np.cumsum(np.log1p(np.outer(credit, BETS)), axis=0)
        ends = np.flatnonzero(evidence(after) >= np.log(2 / ALPHA))
        if len(ends):
            return done + 1.0 + ends[0]
        capital = after[-1]
    return np.inf


def _bounds(market: Market, chances: list[Any], drafts: Drafts, first: Any, second: Any) -> tuple[float, float]:
    """Sessions of the best credit, and of the team's, over those of A/B, by signal and noise alone."""
    clicks = np.arange(POSITIONS + 1)
    mean, square = (np.array([clicks**power @ chance for chance in chances]) for power in (1, 2))
    of_arms = float(mean[0] - mean[1]) ** 2 / (2 * float((square - mean**2).sum()))
    ranks = np.minimum(np.argsort(np.stack([first, second]), axis=2) + 1.0, POSITIONS + 1)
    signals = [drafts.credit]
    for g in (np.positive, np.log, np.sqrt):
        signals.append(_centred(g(ranks[1]) - g(ranks[0]), drafts.lists))
    signals.append(_centred(np.sign(ranks[1] - ranks[0]), drafts.lists))
    tried = (Drafts(drafts.lists, credit).by_position(market, SAMPLE, np.random.default_rng(9)) for credit in signals)
    team = drafts.credits(market, SAMPLE, np.random.default_rng(9))
    return of_arms / max(_signal(credits) for credits in tried), of_arms / float(team.mean() ** 2 / team.var())


def _centred(value: Any, lists: Any) -> Any:
    """The values of shown items minus their means over the coins, so that random clicks have no credit on average."""
    shown = value[np.arange(QUERIES)[:, None, None], lists]
    return shown - shown.mean(axis=1, keepdims=True)


def _signal(credits: Any) -> float:
    """The largest m^2 / v of any weights of positions: mu' Sigma^-1 mu, corrected for fitting the sample's noise."""
    mean, spread = credits.mean(axis=0), np.cov(credits.T) + 1e-9 * np.eye(POSITIONS)
    return float(mean @ np.linalg.solve(spread, mean)) - POSITIONS / len(credits)


def _false_alarms() -> Figure:
    """Users who click equally often on any item; checked after every EVERY sessions."""
    market = market_of("position-based")
    drafts = drafts_of(*pairs_of(market)["best, noise"])
    rng, alarms = np.random.default_rng(6), 0
    same = market._replace(attraction=np.broadcast_to(market.attraction.mean(axis=1, keepdims=True), market.attraction.shape))
    for _ in range(NULLS):
        credit = drafts.credits(same, NULL_SESSIONS, rng)
        capital = np.stack([np.cumsum(np.log1p(np.outer(side * credit, BETS)), axis=0)[EVERY - 1 :: EVERY] for side in (1, -1)])
        alarms += bool((evidence(capital) >= np.log(2 / ALPHA)).any())
    detail = f"{NULLS:,} experiments of {NULL_SESSIONS:,} sessions, looked at after every {EVERY}"
    return at_most("team draft: false alarms without a preference", 100 * alarms / NULLS, 5, "%", detail)
