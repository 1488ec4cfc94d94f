"""The field's rankers of requests against a literal version: one regression, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers.contextual import BASELINES
from recurrank.seeds import stream

D, K = 3, 4
BELIEFS = {
    "naive-thompson": "all",
    "first-thompson": "first",
    "lints-pbmrank": "examined",
    "request-cascade-lints": "cascade",
    "request-c3-ucb": "cascade",
}


class Literal:
    """All answers kept as rows; theta by solving the normal equations of those rows."""

    def __init__(self, name, rng, rounds):
        self.belief, self.optimistic, self.rng, self.rounds = BELIEFS[name], name.endswith("ucb"), rng, rounds
        self.rows, self.answers, self.next = [], 0, 0
        self.examination, self.shown, self.clicked = 1 / np.arange(1.0, K + 1), np.zeros(K), np.zeros(K)
        self.plan()

    def plan(self):
        V, b = np.eye(D + 1), np.zeros(D + 1)
        for x, w, click in self.rows:
            V += 4 * w**2 * np.outer(x, x)
            b += 4 * w * x * click
        self.V, self.theta = V, np.linalg.solve(V, b)
        if self.belief == "examined":
            rate = [c / s if s > 5 else e for c, s, e in zip(self.clicked, self.shown, self.examination, strict=True)]
            self.examination = np.minimum.accumulate(np.clip(np.array(rate) / max(rate[0], 1e-3), 0.01, 1.0))
        self.beta = math.sqrt(math.log(np.linalg.det(V)) + math.log(self.rounds)) + 1
        self.next = self.answers + min(2000, max(8, int(0.04 * self.answers)))

    def rank(self, points):
        x = np.c_[np.ones(len(points)), points]
        if self.optimistic:
            width = np.sqrt(np.einsum("ip,pq,iq->i", x, np.linalg.inv(self.V), x))
            score = np.minimum(x @ self.theta + self.beta * width, 1.0)
        else:
            root = np.linalg.inv(np.linalg.cholesky(self.V))
            score = x @ (self.theta + sum(self.rng.standard_normal() * row for row in root))
        return np.argsort(-score.round(10), kind="stable")[:K].tolist()

    def learn(self, points, clicks):
        for k, (point, click) in enumerate(zip(points, clicks, strict=True)):
            x = np.concatenate([[1.0], point])
            self.shown[k] += max(float(x @ self.theta), 0.0)
            self.clicked[k] += click
            self.rows.append((x, self.examination[k] if self.belief == "examined" else 1.0, click))
            if self.belief == "first" or (self.belief == "cascade" and click):
                break
        self.answers += 1
        if self.answers >= self.next:
            self.plan()


@pytest.mark.parametrize("name", BASELINES)
def test_same_slates(name):
    ranker, twin = BASELINES[name](dim=D, positions=K, rounds=200, seed=3), Literal(name, stream(3, "ranker"), 200)
    rng = np.random.default_rng(0)
    for t in range(150):
        points = rng.standard_normal((9, D)) / 3
        slate = ranker.rank(points)
        assert slate.items.tolist() == twin.rank(points), f"round {t}"
        clicks = rng.random(K) < np.clip(0.3 + points[slate.items] @ [0.3, -0.2, 0.1], 0, 1) / np.arange(1, K + 1)
        ranker.learn(slate, clicks)
        twin.learn(points[slate.items], clicks.tolist())
    again = ranker.copy()
    points = rng.standard_normal((9, D))
    assert again.rank(points).items.tolist() == ranker.rank(points).items.tolist()


@pytest.mark.parametrize("name", BASELINES)
def test_they_learn_where_they_are_right(name):
    """2,000 rounds of what each believes in: less than half of what it loses where it never learns."""
    clicks = {"all": "document", "first": "position", "examined": "position", "cascade": "cascade"}[BELIEFS[name]]
    requests = rr.requests.Clusters(items=60, clusters=4, candidates=10, dim=3, seed=1)
    ranker, still = (BASELINES[name](dim=3, positions=3, seed=0) for _ in range(2))
    still.state.clock[1] = 10**9
    lost, idle = (rr.simulate(r, clicks=clicks, requests=requests, rounds=2000, seed=1).regret[-1] for r in (ranker, still))
    assert lost < idle / 2


@pytest.mark.parametrize("name", BASELINES)
def test_the_whole_of_a_catalogue_is_what_its_items_named_are(name):
    """30 rounds: the same slates whether a request names all items of the catalogue or none."""
    points, rng = np.random.default_rng(0).standard_normal((12, D)) / 3, np.random.default_rng(1)
    whole, named = (BASELINES[name](points, positions=K, seed=5) for _ in range(2))
    for _ in range(30):
        slate, other = whole.rank(), named.rank(candidates=range(12))
        assert slate.items.tolist() == other.items.tolist()
        clicks = rng.random(K) < 0.3
        whole.learn(slate, clicks)
        named.learn(other, clicks)
    assert whole.save() == named.save()
