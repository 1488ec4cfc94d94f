"""The result of ``rr.fit``: scores of click models on a log, and the models themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._figures import STYLE, lines, tidy
from recurrank._frames import frame
from recurrank.catalogue import Catalogue
from recurrank.clicks.assumptions import check
from recurrank.clicks.fitted import Fitted, write
from recurrank.clicks.model import ClickModel
from recurrank.logs.fit.click_models import by_query, click_model
from recurrank.logs.fit.models import FittedModel
from recurrank.logs.sessions import Pairs
from recurrank.rankers.prior import Prior

SURE = 2.5
"""Standard errors by which a worse model has to be behind."""
NEGLIGIBLE = 2e-5
"""Nats per position by which a model may be behind for any standard error: slips and priors cost that much."""
CHECKED = 4
"""Positions on which the paper's assumptions are checked, with all rankings of the typical page's items."""
PROPERTIES = (
    "Assumption 1 (the order above matters)",
    "Assumption 2 (examination rises)",
    "Assumption 3 (the best ranking is not examined least)",
    "the ranking by attraction as the one with the most clicks",
)


class Row(NamedTuple):
    """The scores of one model on the test part.

    Attributes:
        model: its short name.
        log_likelihood: mean log-probability of a click or skip at a position, given the clicks above it.
        perplexity: mean over positions of 2 to the minus mean binary logarithm of the unconditional probability.
        perplexity_by_position: its terms.
        conditional_perplexity_by_position: the same given the clicks above.
        behind: the difference of its log-likelihood to the best one.
        error: the standard error of that, over pages.
        parameters: the effective number of free parameters.
        seconds: the time of fitting, without compilation.

    """

    model: str
    log_likelihood: float
    perplexity: float
    perplexity_by_position: list[float]
    conditional_perplexity_by_position: list[float]
    behind: float
    error: float
    parameters: float
    seconds: float


@dataclass
class Fit:
    """Fitted click models and their scores on the log. ``fit.models()[name][query]`` is a click model.

    Attributes:
        rows: one per model, the best log-likelihood first.
        best: the model that explains the log best; of those that explain it equally well, the one with the fewest parameters.
        tested: the part that the scores are for: "a test log", "the last 25 % of the pages", ...
        fitted: the fitted models.
        typical: a query and the pairs on the page that was shown most often for it; the query is the one with the most pages.

    """

    rows: list[Row]
    best: str
    tested: str
    fitted: dict[str, FittedModel]
    pairs: Pairs
    query_ids: Sequence[str]
    item_ids: Sequence[str]
    pages: int
    typical: tuple[int, Ints]

    def models(self) -> Fitted:
        """The models as :class:`~recurrank.clicks.ClickModel`, by name and query (``"*"`` if attractions are shared).

        A query's models know only the items that were shown for it. ``models().item_ids[query]`` lists their ids, in the order
        in which the models number them: usually not that of the log's ``item_ids``.
        """
        return Fitted(self._document())

    def save(self, path: str | Path) -> None:
        """Write a file for :func:`recurrank.clicks.load`."""
        write(Path(path), self._document())

    def examination(self, name: str) -> Floats:
        """The probability that each position of the typical page is examined under a model."""
        model = self._typical_model(name)
        return model.examine(np.arange(len(model.attraction)))

    def assumptions(self) -> dict[str, str]:
        """Whether each model satisfies the paper's Assumptions 1 to 3, checked on the items of the typical page."""
        results = {}
        for row in self.rows:
            model = self._typical_model(row.model)
            report = check(model, min(CHECKED, len(model.attraction)))
            broken = [text for text, finding in zip(PROPERTIES, report, strict=True) if not finding.holds]
            results[row.model] = "satisfies the paper's assumptions" if not broken else f"breaks {', '.join(broken)}"
        return results

    def figure(self) -> Any:
        """Conditional perplexity and examination by position, one line per model (a matplotlib figure)."""
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        with rc_context(STYLE):
            figure = Figure(figsize=(6.7, 2.5), layout="constrained")
            left, right = figure.subplots(1, 2)
            for line, row in zip(lines(), self.rows, strict=False):
                perplexity = row.conditional_perplexity_by_position
                left.plot(np.arange(1, len(perplexity) + 1), perplexity, label=row.model, **line)
                curve = self.examination(row.model)
                right.plot(np.arange(1, len(curve) + 1), curve, label=row.model, **line)
            for axes in (left, right):
                axes.set_xticks(np.arange(1, max(len(row.perplexity_by_position) for row in self.rows) + 1))
                tidy(axes)
            left.set(title="clicks, given those above", xlabel="position", ylabel="perplexity")
            right.set(title="typical page", xlabel="position", ylabel="probability of examination", ylim=(0, 1.02))
            figure.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside right center")
        return figure

    def _typical_model(self, name: str) -> ClickModel:
        return click_model(self.fitted[name], self.typical[0], self.typical[1])

    def verdict(self) -> str:
        """A sentence on the best model, its lead and the significance of that."""
        top = self.rows[0]
        if len(self.rows) == 1:
            return f"{top.model}: {top.log_likelihood:.5f} nats per position on {self.tested}"
        best = next(row for row in self.rows if row.model == self.best)
        other = next(row for row in self.rows if row.model != self.best)
        ahead = best.log_likelihood - other.log_likelihood
        errors = abs(other.behind - best.behind) / max(other.error, best.error, 1e-12)
        found = f"{best.model} explains {self.tested}"
        if errors < SURE:
            return f"{found} best; {other.model} explains it as well (difference {ahead:+.5f}, {errors:.1f} standard errors)"
        if best is top:
            return (
                f"{found} best; {other.model}, the next, is {ahead:.5f} nats per position behind, {errors:.1f} standard errors"
            )
        pages = "" if -ahead <= NEGLIGIBLE else " if fitted to pages alone,"  # by which dcm and sdbn are chosen
        return (
            f"{found} as well as {other.model},{pages} with {best.parameters:.0f} parameters instead of {other.parameters:.0f} "
            f"(difference {ahead:+.5f} nats per position, {errors:.1f} standard errors)"
        )

    def to_frame(self) -> Any:
        """One row per model, as a DataFrame."""
        return frame([row._asdict() for row in self.rows])

    def prior(
        self, catalogue: Catalogue, answers: float = 1000.0, *, query: str | None = None, model: str | None = None
    ) -> Prior:
        """The log's click rates of a catalogue's items at the first position, as the prior of a ranker.

        Args:
            catalogue: items with the ids of the log.
            answers: the weight of the prior, in answers.
            query: the query of the attractions, if they are fitted by query; by default the one with the most pages.
            model: the fitted model to use; by default the best one.

        """
        fitted, number = self.fitted[model or self.best], 0 if self.pairs.shared else self.typical[0]
        if query is not None and not self.pairs.shared:
            if query not in self.query_ids:
                raise ValueError(f"query: {query!r} is not in the log; it has {', '.join(list(self.query_ids)[:5])}, ...")
            number = list(self.query_ids).index(query)
        rows = {item: row for row, item in enumerate(catalogue.ids or map(str, range(len(catalogue))))}
        first = _first_examined(fitted, number)
        scores = np.full(len(catalogue.features), np.nan)
        for pair in np.flatnonzero(self.pairs.query == number):
            row = rows.get(str(self.item_ids[self.pairs.item[pair]]))
            if row is not None:
                scores[row] = first * fitted.attraction[pair]
        if np.isnan(scores).all():
            raise ValueError("catalogue: none of its items is in the log; give it the ids that the log has")
        return Prior.of(catalogue.features, np.clip(scores, 0, 1), answers)

    def _document(self) -> dict[str, Any]:
        scores = {row.model: {"log_likelihood": row.log_likelihood, "perplexity": row.perplexity} for row in self.rows}
        return {
            "best": self.best,
            "largest": "*" if self.pairs.shared else self.query_ids[self.typical[0]],
            "pages": self.pages,
            "scores": scores,
            "queries": by_query(self.fitted, self.pairs, self.query_ids, self.item_ids),
        }


def _first_examined(fitted: FittedModel, query: int) -> float:
    """The probability that the first position is examined; 1 in models without such a parameter."""
    table = fitted.behaviour.get("examination")
    if table is None:
        return 1.0
    own = np.asarray(table[query])
    return float(own[0] if own.ndim == 1 else own[0, -1])
