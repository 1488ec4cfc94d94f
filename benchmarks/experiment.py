"""A ranker beside a baseline: what the brake costs, what shadow mode teaches, whether a replay repeats assignments, speed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import recurrank as rr
from benchmarks.asking import _Case, _measured
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import put, server
from recurrank.catalogue import Catalogue
from recurrank.clicks import ClickModel
from recurrank.experiments.robustness import ENVIRONMENTS
from recurrank.rankers.ranker import Buffer
from recurrank.rollout import ArmComparison, Brake, arm_of
from recurrank.serving.asked import Asked
from recurrank.serving.events import Kind
from recurrank.serving.experiment import RolloutSettings
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.base import Serve
from recurrank.serving.trial import trial_of

RUNS, HORIZON, EVERY, SHARES, SAMPLE = 20, 50_000, 100, (0.1, 0.5), 1_500
MARGIN, WORSE, ENOUGH = 0.05, 0.8, 0.97
SHADOW, RELEASED, SHADOW_RUNS = 2_000, 20_000, 3
SPLITS = 10
"""Of MovieLens; the other environments are drawn by the seed."""
REQUESTS, SUBJECTS, TOGETHER, STARTS = 1_000_000, 200_000, 1_000, 4


def run() -> list[Figure]:
    """All of them."""
    return [*brake(), *shadow(), *replay(), *throughput()]


def _environments() -> dict[str, Any]:
    from recurrank.experiments import paper

    return {**ENVIRONMENTS, "movielens": paper.set_ups()["movielens"]}


def brake(runs: int = RUNS, horizon: int = HORIZON) -> list[Figure]:
    """A ranker with 20 % fewer clicks than the baseline (the best order): expected clicks of what is shown over its."""
    kept: dict[float, list[float]] = {share: [] for share in SHARES}
    stops: dict[float, list[int]] = {share: [] for share in SHARES}
    for name, environment in _environments().items():
        for run in range(runs):
            seed, rng = np.random.SeedSequence(run, spawn_key=(len(name),)), np.random.default_rng(run)
            model = environment.source.setting(run % SPLITS, seed, environment.positions).model
            good = model.best(environment.positions)
            users = _Users(model, good, _worse(model, good, rng), rng)
            for share in SHARES:
                clicks, at = users.braked(share, horizon, rng)
                kept[share].append(clicks)
                stops[share].append(at)
    return [_braked(share, kept[share], stops[share]) for share in SHARES]


def _braked(share: float, kept: list[float], stops: list[int]) -> Figure:
    enough = 100 * float(np.mean([one >= ENOUGH for one in kept]))
    median, late = (float(np.quantile(stops, q, method="higher")) for q in (0.5, 0.95))
    detail = f"stopped after {median:,.0f} slates (median), {late:,.0f} (95 %); kept {100 * min(kept):.1f} % at worst"
    title = f"brake, share {share:g}, {len(kept)} runs: clicks >= 97 % of the baseline's"
    return at_least(title, enough, 95, "% of runs", detail)


class _Users:
    """Clicks per slate on two orders, each drawn with replacement from a sample of the model's."""

    def __init__(self, model: ClickModel, good: Any, bad: Any, rng: np.random.Generator) -> None:
        self.positions = len(good)
        self.rates = [float(model.expected(order).sum()) for order in (good, bad)]
        self.samples = [np.array([float(model.sample(order, rng).sum()) for _ in range(SAMPLE)]) for order in (good, bad)]

    def braked(self, share: float, horizon: int, rng: np.random.Generator) -> tuple[float, int]:
        """Expected clicks of all slates over those of the baseline alone, and after how many slates the brake stopped."""
        ranker = rng.random(horizon) < share
        both, stop = ArmComparison(self.positions), Brake(MARGIN)
        for first in range(0, horizon, EVERY):
            for arm in ranker[first : first + EVERY]:
                both.observe("ranker" if arm else "baseline", float(self.samples[int(arm)][int(rng.integers(SAMPLE))]))
            if stop.look(both):
                break
        shown = both.baseline.slates + both.ranker.slates
        lost = both.ranker.slates * (self.rates[0] - self.rates[1])
        return 1 - lost / (horizon * self.rates[0]), shown


def _worse(model: ClickModel, good: Any, rng: np.random.Generator) -> Any:
    """An order whose expected clicks are as close to 80 % as some hundred random ones get."""
    best, items = float(model.expected(good).sum()), len(model.attraction)
    found, closest = good, np.inf
    for _ in range(300):
        order = good.copy()
        for k in np.flatnonzero(rng.random(len(good)) < rng.random()):
            order[k] = rng.choice(np.setdiff1d(rng.integers(0, items, 4 * len(good)), order))
        rng.shuffle(order) if rng.random() < 0.5 else None
        away = abs(float(model.expected(order).sum()) / best - WORSE)
        if away < closest:
            found, closest = order, away
    return found


def shadow(rankers: tuple[str, ...] = ("cascade-klucb", "linucb")) -> list[Figure]:
    """Regret after a release from shadow mode over that of a cold start, of rankers that learn from the baseline's slates.

    Those with certificates (balanced, recurrank, toprank, batchrank, bubblerank) learn nothing from an order that they did not
    choose: shadow mode leaves them as they were, byte by byte (``tests/serving/test_experiment.py``).
    """
    figures = []
    for name in rankers:
        ratios, worst = [], ("", 0.0)
        for called, environment in _environments().items():
            regrets = np.zeros(2)
            for run in range(SHADOW_RUNS):
                seed = np.random.SeedSequence(run, spawn_key=(len(called),))
                setting = environment.source.setting(run % SPLITS, seed, environment.positions)
                for warm in (0, 1):
                    settings = {
                        "features": setting.features,
                        "positions": environment.positions,
                        "rounds": RELEASED,
                        "seed": run,
                    }
                    ranker = rr.rankers.make(name, **settings)
                    if warm:
                        _shadowed(ranker, setting.model, np.random.default_rng(run))
                    regrets[warm] += rr.simulate(ranker, setting.model, rounds=RELEASED, seed=run).regret[-1]
            ratios.append(regrets[1] / max(regrets[0], 1e-9))
            worst = max(worst, (called, ratios[-1]), key=lambda one: one[1])
        detail = f"median {np.median(ratios):.2f}; worst {worst[0]}, {worst[1]:.2f}; {len(ratios)} environments"
        figures.append(at_most(f"shadow, {name}: regret after release over a cold start's, worst", worst[1], 1, "", detail))
    return figures


def _shadowed(ranker: Any, model: ClickModel, rng: np.random.Generator) -> None:
    """Learn from the slates of a baseline: the best items by attraction that is known up to a factor between 1/2 and 2."""
    guess = model.attraction * 2.0 ** rng.uniform(-1, 1, len(model.attraction))
    order = np.ascontiguousarray(np.argsort(-guess)[: ranker.positions])
    slate, learn = Buffer(order, np.full((ranker.positions, 2), -1, np.int64)), type(ranker).compiled_learn
    for _ in range(SHADOW):
        learn(ranker.state, slate, model.sample(order, rng))


def replay(requests: int = REQUESTS) -> list[Figure]:
    """A million requests in share mode; the service is started again in between."""
    problem = rr.synthetic(items=100, dim=5, seed=0)
    names = [f"i{n}" for n in range(100)]
    catalogue, baseline = Catalogue(problem.features, names), names[:10]
    spec = RankerSpec(positions=10, rollout=RolloutSettings(mode="share", share=0.1))
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite:///{folder}/log.db"
        for start in range(STARTS):
            service = Service(open_store(address), start=False)
            service.create("shop", spec, catalogue)
            hosted = service.hosted("shop")
            for first in range(start * requests // STARTS, (start + 1) * requests // STARTS, TOGETHER):
                operations = []
                for n in range(first, first + TOGETHER):
                    drawn = hosted.serve(Asked(baseline=baseline, subject=f"v{n % SUBJECTS}"), f"s{n}")
                    operations.append(Serve(f"s{n}", hosted.stored.number, drawn.payload, drawn.stock))
                service.store.commit(operations)
            service.step()
            service.close()
        service = Service(open_store(address), start=False)
        wrong, arms, events, after = 0, dict[str, set[str]](), 0, 0
        fold = new_fold(service.hosted("shop").spec, catalogue)
        while found := service.store.events(after, 20_000):
            after = found[-1].seq
            fold.apply(found)
            for event in found:
                if event.kind == Kind.SERVED:
                    trial, events = trial_of(event.payload), events + 1
                    wrong += trial.arm != arm_of(str(trial.subject), 0.1, "shop")
                    arms.setdefault(str(trial.subject), set()).add(trial.arm)
        same = fold.save() == service.hosted("shop").fold.save()
        several = sum(len(one) > 1 for one in arms.values())
        service.close()
    detail = f"{events:,} slates, {len(arms):,} subjects, {several} in two arms, {STARTS} starts; the same bytes: {same}"
    return [at_most("assignments that a replay does not repeat", wrong + several + (not same), 0, "", detail)]


def throughput() -> list[Figure]:
    """``/rank`` in share mode over the same requests in full mode: the server's processor time per answer."""
    features = rr.synthetic(items=10_000, dim=10, seed=0).features
    bodies = [json.dumps({"baseline": [str(n + k) for k in range(10)], "subject": f"v{n}"}) for n in range(400)]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder, server(folder) as port:
        settings = json.dumps({"mode": "share", "share": 0.5}).replace(" ", "").replace('"', "%22").replace("{", "%7B")
        for name, more in (("without", ""), ("with", f"&rollout={settings.replace('}', '%7D')}")):
            put(port, name, features, 10**7, f"&algorithm=balanced{more}")
        cases = [
            _Case(name, [[["POST", f"/v1/rankers/{name}/rank", body] for body in bodies]], 0, 0) for name in ("without", "with")
        ]
        found = _measured(port, cases)
    rates = {name: 1 / values[2] for name, values in found.items()}
    detail = ", ".join(f"{name} {found[name][0]:,.0f}/s and {1e6 * found[name][2]:.0f} us" for name in found)
    return [at_least("/rank with an experiment over without", 100 * rates["with"] / rates["without"], 95, "%", detail)]
