"""Was the paper's CascadeLinUCB run with a bonus without its square root? ``python docs/evidence/unrooted_bonus.py [RUNS]``

Zong et al. rank by U(a) = min(<a, theta> + c sqrt(a' M^-1 a), 1); ``recurrank paper`` runs that rule. The published regrets
of CascadeLinUCB (0.17 on the cascade model, 227,736 on the position-based one, 180,256 on MovieLens) lie far from what that
gives. This runs the rule with c a' M^-1 a instead, plainly, every item scored every round, and prints regret at a tenth of the
horizon and at its end. It takes some minutes.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import njit

from recurrank.experiments import paper


@njit(cache=True)
def play(features, attraction, examination, cascade, width, rounds, rng):
    """Regret after each tenth of the rounds."""
    items, dim = features.shape
    positions = len(examination)
    columns = np.ascontiguousarray(features.T)
    pairs = np.empty((dim * (dim + 1) // 2, items))  # x_i x_j, so that scores are sums over long rows
    for i in range(dim):
        for j in range(i + 1):
            pairs[i * (i + 1) // 2 + j] = columns[i] * columns[j]
    gram, moments = np.eye(dim), np.zeros(dim)
    scores, order, top = np.empty(items), np.empty(positions, np.int64), np.empty(positions)
    best = np.sort(attraction)[::-1][:positions]
    most = 1 - np.prod(1 - best) if cascade else (best * examination).sum()
    regret, lost = np.zeros(10), 0.0
    for t in range(rounds):
        inverse = np.linalg.inv(gram)
        theta = inverse @ moments
        scores[:] = 0.0
        for i in range(dim):
            weight = theta[i]
            for a in range(items):
                scores[a] += weight * columns[i, a]
            for j in range(i + 1):
                weight, row = width * inverse[i, j] * (1 if i == j else 2), pairs[i * (i + 1) // 2 + j]
                for a in range(items):
                    scores[a] += weight * row[a]
        top[:] = -np.inf
        for a in range(items):  # the K largest, ties by index
            score = min(scores[a], 1.0)
            if score > top[positions - 1]:
                k = positions - 1
                while k > 0 and top[k - 1] < score:
                    top[k], order[k] = top[k - 1], order[k - 1]
                    k -= 1
                top[k], order[k] = score, a
        shown = attraction[order]
        lost += most - (1 - np.prod(1 - shown) if cascade else (shown * examination).sum())
        for k in range(positions):  # items up to and including the first click are observed
            clicked = rng.random() < shown[k] * examination[k]
            x = features[order[k]]
            gram += np.outer(x, x)
            if clicked:
                moments += x
                break
        regret[t * 10 // rounds] = lost
    return regret


def main(runs: int) -> None:
    """A line an environment."""
    for name, environment in paper.set_ups().items():
        k, total = environment.positions, environment.rounds * environment.positions
        width = np.sqrt(environment.dim * np.log(1 + total / environment.dim) + 2 * np.log(total)) + 1
        examination = 1 / np.arange(1.0, k + 1) if name == "position" else np.ones(k)
        found = []
        for run in range(runs):
            setting = environment.source.setting(run, np.random.SeedSequence(run), k)
            features, attraction = np.ascontiguousarray(setting.features), setting.model.attraction
            users = np.random.default_rng(run)
            found.append(play(features, attraction, examination, name == "cascade", width, environment.rounds, users))
        mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(runs)
        ours = f"at T/10 {mean[0]:10,.2f}   at T {mean[9]:10,.2f} (s.e. {error[9]:,.2f}, {runs} runs)"
        print(f"{name:10} {ours}   the paper: {paper.published()[name, 'cascade-linucb', environment.rounds][0]:,}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
