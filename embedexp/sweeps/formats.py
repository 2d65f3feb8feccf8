"""A table as text: for a terminal, Markdown, CSV, LaTeX and HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest
from embedexp.runs.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .comparing import Compared
    from .statistics import Estimate
    from .table import Entry, Table

DIGITS = 2
NONE = "\N{EN DASH}"
MARKS = {
    "reproduced": "reproduced",
    "contradicted": "contradicted",
    "undecided": "undecided at this scale",
    "no claim": "no claim in the paper",
    "not measured": "not measured",
}
_VERDICT_HEADINGS = ("comparison", "where", "paper", "ours", "95% interval", "p", "verdict", "test")


def number(value: float | None, *, signed: bool = False) -> str:
    """A figure with two decimals; a dash where there is none."""
    if value is None:
        return NONE
    return f"{value:+.{DIGITS}f}" if signed else f"{value:.{DIGITS}f}"


def spread(found: Estimate | None, *, signed: bool = False) -> str:
    """Mean and half width of the interval; a dash without values."""
    if found is None:
        return NONE
    half = f" ± {found.half:.{DIGITS}f}" if found.half is not None else ""
    return number(found.mean, signed=signed) + half


def ours(entry: Entry | None, table: Table) -> str:
    """Our figure; what is missing is marked."""
    if entry is None:
        return ""
    text = spread(entry.ours, signed=table.relative_to is not None)
    missing = len(entry.missing)
    if not missing:
        return text
    return f"missing ({_first(entry)})" if not entry.values else f"{text} ({missing} missing)"


def _first(entry: Entry) -> str:
    """The first reason in a word or two; the whole stands in a footnote."""
    reason = plain(next(iter(entry.missing.values()))).partition(":")[0]
    return reason if len(reason) <= 40 else f"{reason[:37]}..."


def heading(column: str, measure: str, table: Table) -> str:
    """The heading of a column: its label, and the measure where there are several."""
    several = len({name for _, name in table.headings}) > 1
    return " · ".join(part for part in (column, measure if several or not column else "") if part)


def beside(table: Table) -> list[str]:
    """What stands beside ours where a figure is published."""
    return ["paper", "difference"] if table.comparable else ["paper"]


def grid(table: Table) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: for each column ours and, where known, what stands `beside` it."""
    headings, rows = [""], [[row] for row in table.rows]
    for column, measure in table.headings:
        entries = [table.entries.get((row, column, measure)) for row in table.rows]
        known = any(entry is not None and entry.published is not None for entry in entries)
        title = heading(column, measure, table)
        headings += [title, *(beside(table) if known else [])]
        for row, entry in zip(rows, entries, strict=True):
            row.append(ours(entry, table))
            if known:
                signed = table.relative_to is not None
                row.append(number(entry.published if entry else None, signed=signed))
                if table.comparable:
                    row.append(number(entry.difference if entry else None, signed=True))
    return headings, rows


def verdicts(table: Table) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the comparisons."""
    return list(_VERDICT_HEADINGS), [_verdict(one) for one in table.comparisons]


def _verdict(one: Compared) -> list[str]:
    sign = {1: ">", -1: "<", 0: "vs"}[one.claim]
    test = one.test
    interval = ""
    if test is not None and test.half is not None:
        low, high = test.difference - test.half, test.difference + test.half
        interval = f"[{low:+.{DIGITS}f}, {high:+.{DIGITS}f}]"
    p = "" if test is None or test.p is None else f"{test.p:.3f}" if test.p >= 0.001 else "<0.001"
    return [
        f"{one.of} {sign} {one.against}",
        one.where,
        number(one.published, signed=True),
        number(test.difference if test else None, signed=True),
        interval,
        p,
        MARKS[one.verdict],
        test.method if test else "",
    ]


def markdown(table: Table) -> str:
    """GitHub's Markdown."""
    lines = [f"### {_md(table.title)}", ""]
    lines += [f"*{_md(table.subtitle)}*", ""] if table.subtitle else []
    lines += [_md(table.question), "", *_md_table(*grid(table))]
    if table.comparisons:
        lines += ["", *_md_table(*verdicts(table), aligned="---")]
    lines += ["", *(f"{position}. {_md(note)}" for position, note in enumerate(table.footnotes, 1))]
    return "\n".join(lines) + "\n"


def _md_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], aligned: str = "---:"
) -> list[str]:
    rule = ["---", *[aligned] * (len(headings) - 1)]
    return [f"| {' | '.join(_md(text) for text in row)} |" for row in (headings,)] + [
        f"| {' | '.join(rule)} |",
        *(f"| {' | '.join(_md(text) for text in row)} |" for row in rows),
    ]


def _md(text: str) -> str:
    return re.sub(r"([\\|`*_\[\]<>#])", r"\\\1", _line(text))


def _line(text: str) -> str:
    return " ".join(plain(text).split())


_CSV_HEADINGS = (
    "row",
    "column",
    "measure",
    "mean",
    "half_width_95",
    "seeds",
    "published",
    "difference",
    "values_by_seed",
    "missing_by_seed",
    "tasks",
    "relative_to",
)


def csv_text(table: Table) -> str:
    """One line a place of the table, with every seed's value; for other programs.

    Mean and published figure are differences where `relative_to` names a row; values never are.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV_HEADINGS)
    for (row, column, measure), entry in table.entries.items():
        mean, half = (entry.ours.mean, entry.ours.half) if entry.ours else (None, None)
        cells = [_csv(value) for value in (mean, half)]
        less = entry.difference if table.comparable else None
        cells += [str(len(entry.values)), _csv(entry.published), _csv(less)]
        values = "; ".join(f"{seed}: {value!r}" for seed, value in sorted(entry.values.items()))
        missing = "; ".join(f"{seed}: {text}" for seed, text in sorted(entry.missing.items()))
        texts = [row, column, measure, *cells, values, missing, ", ".join(entry.tasks)]
        texts.append(table.relative_to or "")
        writer.writerow([_safe(text) for text in texts])
    return out.getvalue()


def _csv(value: float | None) -> str:
    return "" if value is None else repr(value)


def _safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula; numbers stay what they are."""
    text = plain(text)
    looks = text.startswith(("=", "+", "-", "@")) and not re.fullmatch(r"[+-]?[\d.e+-]+", text)
    return f"'{text}" if looks else text


def latex(table: Table) -> str:
    """A table environment for booktabs and threeparttable."""
    headings, rows = grid(table)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(table.title)}}}",
        r"\begin{threeparttable}",
        *_tabular(headings, rows, "l" + "r" * (len(headings) - 1)),
    ]
    if table.comparisons:
        names, compared = verdicts(table)
        lines += [r"\par\medskip", *_tabular(names, compared, "llrrrrll")]
    lines += [r"\begin{tablenotes}\footnotesize"]
    lines += [rf"\item {_tex(note)}" for note in table.footnotes]
    lines += [r"\end{tablenotes}", r"\end{threeparttable}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _tabular(headings: Sequence[str], rows: Sequence[Sequence[str]], columns: str) -> list[str]:
    return [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(_tex(text) for text in headings) + r" \\",
        r"\midrule",
        *(" & ".join(_tex(text) for text in row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "·": r"$\cdot$", NONE: "--",
    "|": r"\textbar{}",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in _line(text))


def html_text(table: Table) -> str:
    """A fragment of HTML: two tables and a list, every text escaped."""
    lines = [f"<section>\n<h2>{_html(table.title)}</h2>"]
    lines += [f"<p><em>{_html(table.subtitle)}</em></p>"] if table.subtitle else []
    lines += [f"<p>{_html(table.question)}</p>", *_html_table(*grid(table), table.title)]
    if table.comparisons:
        lines += _html_table(*verdicts(table), "Comparisons")
    lines += ["<ol>", *(f"<li>{_html(note)}</li>" for note in table.footnotes), "</ol>"]
    return "\n".join([*lines, "</section>"]) + "\n"


def _html_table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> list[str]:
    head = "".join(f'<th scope="col">{_html(text)}</th>' for text in headings)
    lines = [f"<table>\n<caption>{_html(caption)}</caption>", f"<thead><tr>{head}</tr></thead>"]
    lines.append("<tbody>")
    for first, *rest in rows:
        cells = "".join(f"<td>{_html(text)}</td>" for text in rest)
        lines.append(f'<tr><th scope="row">{_html(first)}</th>{cells}</tr>')
    return [*lines, "</tbody>", "</table>"]


def _html(text: str) -> str:
    return html.escape(_line(text))


def terminal(table: Table) -> str:
    """Columns of plain text, as wide as they need to be."""
    lines = [plain(table.title)]
    lines += [plain(table.subtitle)] if table.subtitle else []
    lines += [plain(table.question), "", *_columns(*grid(table))]
    if table.comparisons:
        lines += ["", *_columns(*verdicts(table), right=False)]
    lines.append("")
    lines += [f"{position:>2}  {_line(note)}" for position, note in enumerate(table.footnotes, 1)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True
) -> list[str]:
    every = [[_line(text) for text in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(headings))]
    made = []
    for row in every:
        cells = [
            text.rjust(width) if right and column else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        made.append("  " + "   ".join(cells))
    return [made[0], "  " + "─" * (sum(widths) + 3 * (len(widths) - 1)), *made[1:]]


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "csv": csv_text,
    "latex": latex,
    "html": html_text,
}
_BY_SUFFIX = {
    ".md": "markdown",
    ".csv": "csv",
    ".tex": "latex",
    ".html": "html",
    ".txt": "terminal",
}


def render(table: Table, name: str) -> str:
    """The table in the format `name`.

    Raises:
        UserError: there is no such format.
    """
    if name not in FORMATS:
        best = nearest(name, FORMATS)
        raise UserError(
            f"there is no format {name!r}" + (f"; did you mean {best}?" if best else ""),
            hint=f"formats: {', '.join(FORMATS)}",
        )
    return FORMATS[name](table)


def format_of(suffix: str) -> str:
    """The format that a file's suffix asks for; that of a terminal where there is none.

    Raises:
        UserError: no format is known by that suffix.
    """
    if suffix and suffix not in _BY_SUFFIX:
        raise UserError(
            f"no format is known by {suffix}",
            hint=f"suffixes: {', '.join(_BY_SUFFIX)}; or --format {', '.join(FORMATS)}",
        )
    return _BY_SUFFIX.get(suffix, "terminal")
