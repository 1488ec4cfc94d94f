"""Why Balanced can keep a wrong sixth item on chain-cascade: as it is, and with tries that cost nothing.

``python docs/evidence/chain_cascade.py [RUNS]``: each run's regret, the attractions of its last order, its blocks, and of the
items of 0.4 and 0.3 how often they were tried at the block's first position, and how many deviations apart they are.
"""

from __future__ import annotations

import sys

import numpy as np
from balanced_ablation import NoAccount

import recurrank as rr
from recurrank.experiments.robustness import ENVIRONMENTS
from recurrank.rankers.balanced import Balanced


def tried(ranker: Balanced, item: int) -> float:
    """How often an item was tried, from the last data set: items are orthogonal."""
    x = ranker.state.features[item]
    return float(x @ ranker.state.moments[-1] @ x / (x @ x) ** 2 / ranker.state.weight[item])


def apart(ranker: Balanced, one: int, other: int) -> float:
    """The estimated difference of two items by the last data set, in standard deviations."""
    inverse = np.linalg.inv(np.eye(ranker.state.moments.shape[1]) + ranker.state.moments[-1])
    difference = ranker.state.features[one] - ranker.state.features[other]
    return float(difference @ inverse @ ranker.state.sums[-1] / np.sqrt(difference @ inverse @ difference))


def main(runs: int) -> None:
    environment = ENVIRONMENTS["chain-cascade"]
    for kind, options in ((Balanced, {}), (NoAccount, {}), (Balanced, {"confidence": "proved"})):
        regrets = []
        for run in range(runs):
            setting = environment.source.setting(run, np.random.SeedSequence([run, 1]), environment.positions)
            ranker = kind(setting.features, environment.positions, environment.rounds, run, **options)
            regrets.append(rr.simulate(ranker, setting.model, environment.rounds, run).regret[-1])
            alpha = setting.model.attraction
            pair = [int(np.argmin(np.abs(alpha - value))) for value in (0.4, 0.3)]
            order, blocks = (
                alpha[ranker.state.leaders].round(1).tolist(),
                [(block.width, block.size) for block in ranker.blocks],
            )
            tries = [round(tried(ranker, item)) for item in pair]
            known = f"blocks {blocks}, tries {tries}, {apart(ranker, *pair):.2f} deviations apart"
            print(f"{kind.__name__} {options} {run}: regret {regrets[-1]:.2f}, order {order}, {known}", flush=True)
        print(f"{kind.__name__} {options}: {np.mean(regrets):.2f} ± {np.std(regrets, ddof=1) / runs**0.5:.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
