"""The files written for a set of runs: an HTML report, figures, and a table for a paper.

``report.html`` is self-contained (it includes plotly's JavaScript from the plotly package), so it opens without a
network. Files are replaced atomically.
"""

from __future__ import annotations

import html
import json
import math
import os
import platform
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata, resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from recurrank._figures import INK
from recurrank.clicks.optimum import EXACT, WARNING
from recurrank.experiments.experiment import Result
from recurrank.experiments.figures import BOUND, colours, dashes, draw_curves, pretty
from recurrank.experiments.summary import Curve, Published, Row, curves, grouped, growth, summary
from recurrank.theory.bounds import upper_bound

TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
"""Characters that LaTeX writes by name; others are escaped by a backslash."""
PLOTLY_DASH = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}


@dataclass(frozen=True)
class Report:
    """The contents of the page besides the numbers.

    Attributes:
        title: of the page.
        lead: a paragraph under it.
        published: published numbers to show beside ours.
        remarks: by environment, the remark under its table.
        log: environments with a logarithmic regret axis.
        bound: whether the figures show Theorem 1's bound (the page has it on a click).
        elapsed: total wall-clock time of the runs, in seconds.
        command: the command that made it, for reproduce.txt.
        files: further files beside the page, to link.

    """

    title: str
    lead: str
    published: Published = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    bound: bool = False
    elapsed: float = 0.0
    command: str = ""
    files: tuple[str, ...] = ()


def write_report(folder: Path, results: list[Result], report: Report) -> list[Path]:
    """Write report.html, table.tex, reproduce.txt and the figures as .png and .pdf; return their paths."""
    figures = curves(results)
    if report.bound:
        for environment, bound in bounds(results).items():
            figures[environment].append(bound)
    written = []
    for environment in figures:
        png, pdf = (folder / name for name in _figure_files(environment))
        with _whole(png) as first, _whole(pdf) as second:
            draw_curves({environment: figures[environment]}, first, second, log=report.log)
        written += [png, pdf]
    written.append(folder / "regret.png")
    with _whole(written[-1]) as path:
        draw_curves(figures, path, log=report.log)
    rows = summary(results, report.published)
    for name, text in (
        ("table.tex", tex_table(rows)),
        ("report.html", page(results, rows, report)),
        ("reproduce.txt", reproduce(results, report)),
    ):
        written.append(write_text(folder / name, text))
    return written


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically."""
    with _whole(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def reproduce(results: list[Result], report: Report) -> str:
    """Everything needed to reproduce the numbers: command, versions, data and seeds."""
    lines = [report.title, "", "command:", f"    {report.command or 'run from Python'}", "", "versions:"]
    lines += [f"    {name} {metadata.version(name)}" for name in ("recurrank", "numpy", "numba", "scipy")]
    lines += [f"    Python {platform.python_version()}, {platform.system()}, {processor()}", ""]
    columns = "rounds; items, features, positions; data; runs; fingerprint of sources, problem and options; seed of run r"
    lines += [f"experiments ({columns}):"]
    for (environment, ranker), group in grouped(results).items():
        first, runs = group[0], [result.run for result in group]
        spread = f"runs {min(runs)} to {max(runs)}"
        seed = f"numpy.random.SeedSequence([{zlib.crc32(environment.encode())}, r])"
        size = f"L = {first.items:,}, d = {first.dim}, K = {first.positions}"
        lines.append(f"    {environment} {ranker}: {first.rounds:,}; {size}; {first.data}; {spread}; {first.code}; {seed}")
    return "\n".join(lines) + "\n"


def needs_plotly() -> None:
    """ValueError if plotly is not installed: before the runs, not after them."""
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise ValueError("out: a folder with a report needs plotly and pyarrow; install recurrank[report]") from error


def _figure_files(environment: str) -> list[str]:
    stem = re.sub(r"[^A-Za-z0-9_-]", "-", f"regret-{environment}")
    return [stem + ".png", stem + ".pdf"]


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A temporary path to write to, which replaces ``path`` on success."""
    partial = path.with_name(f".partial-{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def bounds(results: list[Result]) -> dict[str, Curve]:
    """Theorem 1's bound for each environment in which RecurRank ran with the theorem's options."""
    curves_by_name = {}
    for (environment, ranker), group in grouped(results).items():
        if ranker == "recurrank":
            row = group[0]
            rounds = row.checkpoints[row.checkpoints >= row.rounds // 100]
            delta = 1 / math.sqrt(row.rounds)
            values = np.array([upper_bound(row.items, row.dim, row.positions, int(t), delta) for t in rounds])
            curves_by_name[environment] = Curve(BOUND, rounds, values, None)
    return curves_by_name


# ---------------------------------------------------------------------------------------------------- LaTeX


def tex_table(rows: list[Row]) -> str:
    """A table for a paper (booktabs), with published numbers beside ours if there are any."""
    theirs = any(row.paper_regret is not None for row in rows)
    heads = ["", "", "rounds", "regret", "s.e.", "seconds", *(["paper: regret", "seconds"] if theirs else [])]
    lines: list[list[str]] = []
    last = None
    for row in rows:
        cells = [row.environment if row.environment != last else "", pretty(row.ranker), f"{row.rounds:,}"]
        cells += [number(row.regret_mean), number(row.regret_se), f"{row.seconds_mean:.2f}"]
        if theirs:
            cells += [number(row.paper_regret), number(row.paper_seconds)]
        lines += [[]] * (row.environment != last and last is not None) + [cells]
        last = row.environment
    return booktabs(heads, lines, warnings(rows))


def booktabs(heads: list[str], rows: Iterable[list[str]], remarks: Iterable[str] = ()) -> str:
    """A table for a paper: two columns of names, the others of numbers, a rule for each empty row, and remarks below."""
    lines = [r"% needs \usepackage{booktabs}", rf"\begin{{tabular}}{{ll{'r' * (len(heads) - 2)}}}", r"\toprule"]
    lines += [" & ".join(map(tex, heads)) + r" \\", r"\midrule"]
    for row in rows:
        cells = [*map(tex, row[:2]), *map(tex_number, row[2:])]
        lines.append(" & ".join(cells) + r" \\" if row else r"\midrule")
    below = [rf"\\ {{\footnotesize {tex(remark)}}}" for remark in remarks]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *below, ""])


def tex(text: str) -> str:
    r"""Text escaped for LaTeX.

    >>> print(tex("toprank:delta=T^-1, 5 % of a_b"))
    toprank:delta=T\textasciicircum{}-1, 5 \% of a\_b
    """
    return re.sub(r"[\\~^&%$#_{}]", lambda match: TEX.get(match[0], rf"\{match[0]}"), text)


def tex_number(text: str) -> str:
    r"""A number, or an interval, with the minus of mathematics.

    >>> print(tex_number("[-1,234.5, 3.0]"))
    [$-$1{,}234.5, 3.0]
    """
    return re.sub(r",(?=\d)", "{,}", re.sub(r"-(?=\d)", "$-$", text))


def number(value: float | None, digits: int | None = None) -> str:
    """A number for display: 95,582 and 0.53, or with this number of decimals, and a dash for a missing one.

    >>> number(95582.4), number(0.07), number(51.0), number(None), number(0.5, 4)
    ('95,582', '0.07', '51', '-', '0.5000')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if digits is not None:
        return f"{value:,.{digits}f}"
    return f"{value:,.2f}" if abs(value) < 1000 and not float(value).is_integer() else f"{value:,.0f}"


# ---------------------------------------------------------------------------------------------------- HTML


def page(results: list[Result], rows: list[Row], report: Report) -> str:
    """The whole page as text."""
    from plotly.offline import get_plotlyjs

    drawn, bound = curves(results), bounds(results)
    charts = {name: _chart(name, [*drawn[name], *([bound[name]] if name in bound else [])], report) for name in drawn}
    sections = "".join(_section(name, group, drawn[name], report) for name, group in _by_environment(results).items())
    template = Template(resources.files("recurrank.experiments").joinpath("report.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(report.title),
        lead=html.escape(report.lead),
        facts=_facts(results, rows, report),
        sections=sections,
        machine=_machine(),
        files=_files(list(drawn), report.files),
        charts=json.dumps(charts).replace("</", "<\\/"),
        plotly=get_plotlyjs(),
    )


def _by_environment(results: list[Result]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.environment, []).append(result)
    return groups


def _facts(results: list[Result], rows: list[Row], report: Report) -> str:
    spent = sum(result.seconds for result in results)
    facts = [
        (f"{len(results):,}", "runs"),
        (f"{sum(result.rounds for result in results):,}", "rounds played"),
        (_duration(report.elapsed), "from start to end, compilation included"),
        (_duration(spent), "of computing in the runs"),
    ]
    theirs = sum(row.paper_seconds * row.runs for row in rows if row.paper_seconds)
    if theirs:
        ours = sum(row.seconds_mean * row.runs for row in rows if row.paper_seconds)
        facts += [(_duration(theirs), "the paper's time for these runs"), (f"{theirs / ours:,.0f}x", "faster than the paper's")]
    return "".join(f'<div class="fact"><b>{value}</b><span>{html.escape(what)}</span></div>' for value, what in facts)


def _section(name: str, group: list[Result], drawn: list[Curve], report: Report) -> str:
    rows = [row for row in summary(group, report.published) if row.environment == name]
    first, title = group[0], html.escape(name)
    theirs = any(row.paper_regret is not None for row in rows)
    colour = colours([row.ranker for row in rows])
    heads = ["ranker", "regret", "± s.e.", *(["paper", "ours / paper"] if theirs else []), "growth", "seconds"]
    heads += ["paper's seconds"] if theirs else []
    body = ""
    for row, curve in zip(rows, drawn, strict=True):
        shade = "var(--ink)" if colour[row.ranker] == INK else colour[row.ranker]  # light in the dark theme
        swatch = f'<i style="--c:{shade}"></i>'
        cells = [number(row.regret_mean), number(row.regret_se)]
        if theirs:
            ratio = row.regret_mean / row.paper_regret if row.paper_regret else math.nan
            cells += [number(row.paper_regret), number(ratio)]
        exponent = growth(curve)
        cells += ["-" if math.isnan(exponent) else f"t<sup>{round(exponent, 2) + 0.0:.2f}</sup>", f"{row.seconds_mean:.2f}"]
        cells += [number(row.paper_seconds)] if theirs else []
        body += (
            f"<tr><th scope=row>{swatch}{html.escape(pretty(row.ranker))}</th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>"
        )
    sizes = f"{first.items:,} items, {first.dim} features, {first.positions} positions, {first.rounds:,} rounds, "
    sizes += f"{rows[0].runs} runs; data: {first.data}"
    remark = report.remarks.get(name, "")
    pressed = "true" if name in report.log or report.bound else "false"
    return (
        f'<section id="{title}"><h2>{title}</h2><p class="sizes">{html.escape(sizes)}</p>'
        f'<div class="chart" data-chart="{title}" role="img" aria-label="Regret over rounds, {title}"></div>'
        f'<p class="buttons"><button data-axis="{title}" aria-pressed="{pressed}">logarithmic regret</button></p>'
        f'<div class="scroll"><table><thead><tr>{"".join(f"<th scope=col>{h}</th>" for h in heads)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        + "".join(f'<p class="warning">{html.escape(line)}</p>' for line in warnings(rows))
        + (f'<p class="order">{html.escape(order_remark(rows))}</p>' if theirs else "")
        + "".join(f"<p>{html.escape(line)}</p>" for line in remark.split("\n") if line)
        + "</section>"
    )


def warnings(rows: list[Row]) -> list[str]:
    """Warnings to show beside the regret of these environments."""
    named = dict.fromkeys(row.environment for row in rows if row.optimum != EXACT)
    return [f"{name}: {WARNING}" for name in named]


def order_remark(rows: list[Row]) -> str:
    """A sentence on whether the rankers end in the paper's order."""
    both = [row for row in rows if row.paper_regret is not None]
    ours = [row.ranker for row in sorted(both, key=lambda row: row.regret_mean)]
    theirs = [row.ranker for row in sorted(both, key=lambda row: row.paper_regret or 0.0)]
    sentence = f"From least to most regret: {', '.join(map(pretty, ours))}"
    if len(both) < 2:
        return sentence + "."
    return sentence + (", as in the paper." if ours == theirs else f"; in the paper: {', '.join(map(pretty, theirs))}.")


def _chart(name: str, drawn: list[Curve], report: Report) -> dict[str, Any]:
    """Traces for plotly: one line per ranker and a band of one standard error."""
    rankers = [curve.ranker for curve in drawn]
    colour, dash = colours(rankers), dashes(rankers)
    traces: list[dict[str, Any]] = []
    for curve in drawn:
        style = {"color": colour[curve.ranker], "width": 2, "dash": PLOTLY_DASH[dash[curve.ranker]]}
        x, y = curve.rounds.tolist(), [_rounded(value) for value in curve.regret]
        line = {"x": x, "y": y, "name": pretty(curve.ranker), "legendgroup": curve.ranker, "mode": "lines", "line": style}
        line["hovertemplate"] = "%{y:,.4~g} after %{x:,} rounds"
        if curve.ranker == BOUND:
            line |= {"visible": True if report.bound else "legendonly", "line": style | {"dash": "dot"}}
        elif curve.error is not None and curve.error.any():
            low, high = curve.regret - curve.error, curve.regret + curve.error
            band = [_rounded(value) for value in np.concatenate([high, low[::-1]])]
            traces.append(
                {"x": x + x[::-1], "y": band, "fill": "toself", "fillcolor": colour[curve.ranker], "opacity": 0.18}
                | {"line": {"width": 0}, "mode": "lines", "hoverinfo": "skip", "showlegend": False}
                | {"legendgroup": curve.ranker}
            )
        traces.append(line)
    return {"traces": traces, "log": name in report.log or report.bound}


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _machine() -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("recurrank", "numpy", "numba"))
    return html.escape(
        f"{processor()}, {os.cpu_count()} cores; {platform.system()}; Python {platform.python_version()}, {versions}"
    )


def processor() -> str:
    """The processor's name, if the system provides it."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine() or "unknown processor"


def _files(drawn: list[str], more: tuple[str, ...]) -> str:
    names = ["results.parquet", "table.tex", "regret.png", "reproduce.txt", *more]
    names += [file for name in drawn for file in _figure_files(name)]
    return ", ".join(f'<a href="{name}">{name}</a>' for name in names)
