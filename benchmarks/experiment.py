"""An experiment with a ranker and a baseline: whether a replay repeats assignments, and speed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import recurrank as rr
from benchmarks.asking import _Case, _measured
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import put, server
from recurrank.catalogue import Catalogue
from recurrank.rollout import arm_of
from recurrank.serving.asked import Asked
from recurrank.serving.events import Kind
from recurrank.serving.experiment import RolloutSettings
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Serve
from recurrank.serving.trial import trial_of

REQUESTS, SUBJECTS, TOGETHER, STARTS = 1_000_000, 200_000, 1_000, 4


def run() -> list[Figure]:
    """All figures."""
    return [*replay(), *throughput()]


def replay(requests: int = REQUESTS) -> list[Figure]:
    """A million requests in share mode, with restarts of the service in between."""
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
        while batch := service.store.events(after, 20_000):
            after = batch[-1].seq
            fold.apply(batch)
            for event in batch:
                if event.kind == Kind.SERVED:
                    trial, events = trial_of(event.payload), events + 1
                    wrong += trial.arm != arm_of(str(trial.subject), 0.1, "shop")
                    arms.setdefault(str(trial.subject), set()).add(trial.arm)
        same = fold.save() == service.hosted("shop").fold.save()
        several = sum(len(assigned) > 1 for assigned in arms.values())
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
