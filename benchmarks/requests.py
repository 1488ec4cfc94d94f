"""A simulated round of requests: Anchored, 40 candidates x 10 positions and 200 x 20, over LinTS-PBMRank's in the same run."""

from __future__ import annotations

import recurrank as rr
from recurrank.rankers.contextual import LinTSPBMRank

ROUNDS = 100_000


def seconds(kind: type[rr.rankers.Ranker], candidates: int, positions: int) -> float:
    """Of one round, estimates included."""
    requests = rr.requests.Clusters(items=2000 if candidates < 100 else 10_000, candidates=candidates)
    best = float("inf")
    for seed in range(2):
        ranker = kind(dim=10, positions=positions, seed=seed)  # type: ignore[call-arg]
        best = min(best, rr.simulate(ranker, clicks="position", requests=requests, rounds=ROUNDS, seed=seed).seconds)
    return best / ROUNDS


def main() -> None:
    """Print microseconds and ratios."""
    for candidates, positions in ((40, 10), (200, 20)):
        ours, theirs = (seconds(kind, candidates, positions) for kind in (rr.Anchored, LinTSPBMRank))
        print(f"requests of {candidates} x {positions}: {ours * 1e6:.1f} us, {ours / theirs:.2f} of LinTS-PBMRank's")


if __name__ == "__main__":
    main()
