"""What each part of Balanced is for: the same runs with one part taken out. ``python docs/evidence/balanced_ablation.py``"""

from __future__ import annotations

import numpy as np

import recurrank as rr
from recurrank.experiments.robustness import ENVIRONMENTS
from recurrank.rankers.balanced import Balanced

RUNS = 3


class NoBalance(Balanced):
    """Usual rounds only: nothing is paid in, nothing can be asked for."""

    def _tables(self, *arguments) -> None:
        super()._tables(*arguments)
        self.state.gain[:] = 0.0
        self.state.asked[:] = -1


class NoAccount(Balanced):
    """Whatever a wide sample asks for is shown, whatever it costs."""

    def _tables(self, *arguments) -> None:
        super()._tables(*arguments)
        self.state.cost[:, :-1] = 0.0


class NoInsurance(Balanced):
    """Without the second account."""

    def _tables(self, *arguments) -> None:
        super()._tables(*arguments)
        self.state.asked[:, -1] = -1


class NoCertificates(Balanced):
    """One block for ever, all items in it."""

    def _certify(self, theta) -> None:
        pass


class NoVariances(Balanced):
    """All clicks count the same."""

    def _vary(self, *arguments) -> None:
        pass


def main() -> None:
    names = ("dense-document", "orthogonal", "leader", "tied", "chain-dependent", "set-orthogonal")
    print(f"| without | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for kind in (Balanced, NoBalance, NoAccount, NoInsurance, NoCertificates, NoVariances):
        found = []
        for name in names:
            environment = ENVIRONMENTS[name]
            regrets = []
            for run in range(RUNS):
                setting = environment.source.setting(run, np.random.SeedSequence([run, 1]), environment.positions)
                ranker = kind(setting.features, environment.positions, environment.rounds, run)
                regrets.append(rr.simulate(ranker, setting.model, environment.rounds, run).regret[-1])
            found.append(f"{np.mean(regrets):,.0f} ± {np.std(regrets, ddof=1) / RUNS**0.5:,.0f}")
        print(
            f"| {kind.__name__.removeprefix('No').lower() if kind is not Balanced else '(nothing)'} | {' | '.join(found)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
