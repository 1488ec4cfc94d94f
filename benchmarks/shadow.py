"""Shadow mode in 13 environments: the benefit, after a release, of learning from a baseline's own slates.

Each ranker is made in a real service (a log, a learner) in shadow mode and gets 2,000 slates of a baseline with their clicks.
The baseline shows the best items by attractions that it knows up to a factor between 1/2 and 2, always in the same order. Then
the ranker is released: its regret over the next 20,000 rounds is compared with a cold start's, with the same users.

A ranker with blocks of positions certifies that a block of m positions has the items that belong there. The certificate is
wrong if the best m of the block's items are not as good as the best order's items at these positions. It is checked after the
shadow and at the end. Rankers without blocks certify nothing. Rankers that do not learn from other orders must be unchanged,
byte by byte: then their regret is a cold start's, and one run per environment is enough.
"""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple

import numpy as np

import recurrank as rr
from benchmarks.brake import SPLITS, environments
from benchmarks.measure import Figure, at_most
from recurrank.catalogue import Catalogue
from recurrank.rankers.ranker import registered
from recurrank.serving.asked import Asked
from recurrank.serving.experiment import RolloutSettings
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report, Serve

SHADOW, RELEASED, RUNS, TOGETHER = 2_000, 20_000, 20, 250
SLOW = ("pb-mhb", "unirank")
"""Rankers that take minutes to hours with 10,000 items; they run only by name."""


class Outcome(NamedTuple):
    """One run: regret after a release and of a cold start, and wrong certificates at any time."""

    released: float
    cold: float
    wrong: int


def run(rankers: tuple[str, ...] = (), runs: int = RUNS) -> list[Figure]:
    """Each ranker that a service can use in each environment."""
    names = rankers or [name for name in rr.rankers.names(served=True) if name not in SLOW]
    return [figure for name in names for figure in _figures(name, runs if registered()[name].learns_any_order else 1)]


def _figures(name: str, runs: int) -> list[Figure]:
    found = {}
    for called, environment in environments().items():
        found[called] = np.array([outcome(name, called, environment, run) for run in range(runs)])
    lost = {called: _lost(table) for called, table in found.items()}
    worst = max(lost, key=lambda called: lost[called][0])
    ratios = {called: table[:, 0].sum() / max(table[:, 1].sum(), 1e-9) for called, table in found.items()}
    kind = "learns" if registered()[name].learns_any_order else "does not learn"
    detail = f"({kind}) median ratio {np.median(list(ratios.values())):.2f}; " + ", ".join(
        f"{called} {ratio:.2f}" for called, ratio in ratios.items()
    )
    wrong = int(sum(table[:, 2].sum() for table in found.values()))
    title = f"shadow, {name}: environments of {len(found)} where regret is above a cold start's by more than 2 standard errors"
    worse = sum(mean > 2 * error + 1e-9 for mean, error in lost.values())
    return [
        at_most(title, worse, 0, "", f"{detail}; largest difference {lost[worst][0]:+,.0f} ({worst})"),
        at_most(f"shadow, {name}: wrong certificates", wrong, 0, "", f"{len(found) * runs} runs"),
    ]


def _lost(table: Any) -> tuple[float, float]:
    """The mean difference of regrets, released minus cold, and its standard error."""
    difference = table[:, 0] - table[:, 1]
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else 0.0


def outcome(name: str, called: str, environment: Any, run: int) -> Outcome:
    """One ranker, one environment, one run."""
    seed, rng = np.random.SeedSequence(run, spawn_key=(len(called),)), np.random.default_rng(run)
    setting = environment.source.setting(run % SPLITS, seed, environment.positions)
    model, positions = setting.model, environment.positions
    catalogue = Catalogue(setting.features, [str(item) for item in range(len(setting.features))])
    rollout = RolloutSettings(mode="shadow")
    options = {"examination": (1 / np.arange(1.0, positions + 1)).tolist()} if name.startswith("pbm-") else {}
    spec = RankerSpec(algorithm=name, positions=positions, rounds=RELEASED, seed=run, options=options, rollout=rollout)
    ranker, cold = _shadowed(spec, catalogue, model, rng), new_fold(spec, catalogue).ranker
    wrong = _wrong(ranker, model)
    if not ranker.learns_any_order:
        ranker.served = 0
        if ranker.save() != cold.save():
            raise RuntimeError(f"{name}: a shadow has changed what it knows")
        cold = ranker  # equal states have equal regret
    regrets = [rr.simulate(learner, model, rounds=RELEASED, seed=run).regret[-1] for learner in dict.fromkeys((ranker, cold))]
    return Outcome(regrets[0], regrets[-1], wrong + _wrong(ranker, model))


def _shadowed(spec: RankerSpec, catalogue: Catalogue, model: Any, rng: np.random.Generator) -> Any:
    """The service's ranker after a shadow."""
    guess = model.attraction * 2.0 ** rng.uniform(-1, 1, len(model.attraction))
    order = np.ascontiguousarray(np.argsort(-guess)[: spec.positions])
    asked = Asked(baseline=[str(item) for item in order])
    with tempfile.TemporaryDirectory() as folder:
        service = Service(open_store(f"sqlite:///{folder}/log.db"), start=False)
        service.create("shop", spec, catalogue)
        hosted = service.hosted("shop")
        for first in range(0, SHADOW, TOGETHER):
            served, reports = [], []
            for n in range(first, first + TOGETHER):
                drawn = hosted.serve(asked, f"s{n}")
                served.append(Serve(f"s{n}", hosted.stored.number, drawn.payload, drawn.stock))
                reports.append(Report(f"s{n}", tuple(np.flatnonzero(model.sample(order, rng)).tolist()), True))
            service.store.commit(served)
            service.store.commit(reports)
            service.step()
        service.set_rollout("shop", lambda _: RolloutSettings())
        service.step()
        ranker, learned = hosted.fold.ranker, hosted.fold.counts["learned"]
        service.close()
    if learned != SHADOW:
        raise RuntimeError(f"{learned} of {SHADOW} slates were learned")
    return ranker


def _wrong(ranker: Any, model: Any) -> int:
    """Blocks that do not have the best items of their positions."""
    best = np.sort(model.attraction)[::-1]
    wrong = 0
    for block in getattr(ranker, "blocks", ()):
        own = np.sort(model.attraction[block.items])[::-1][: block.width]
        wrong += bool(np.any(own < best[block.first : block.first + block.width] - 1e-9))
    return wrong
