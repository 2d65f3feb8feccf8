"""Charts as SVG inside a page: text stays text, colours follow the page, and a reader has words.

matplotlib draws in stand-in colours, which become the page's CSS variables, so that one drawing
serves a light page, a dark one and paper.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from embedexp.drawing import plain as literal
from embedexp.runs.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

WIDTH = 5.0  # inches: about as many points as a phone has pixels, so that 10 points can be read
INK, FAINT = "#010101", "#020202"
SERIES = tuple(f"#0301{n:02d}" for n in range(8))
_VARIABLES = {INK: "--ink", FAINT: "--faint"} | {
    colour: f"--series-{n}" for n, colour in enumerate(SERIES)
}
_COLOUR = re.compile("|".join(_VARIABLES))
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_LONG_NUMBER = re.compile(r"(\d+\.\d)\d+")
_FONT = re.compile(r" ?font-family: [^;]*;?")
_SPACE = re.compile(r"\s+")


@dataclass
class Chart:
    """A drawing with its caption, and what it shows in words for those who don't see it.

    Charts of one `group` stand in rows of their own.
    """

    caption: str
    words: str
    group: str = ""
    svg: str = field(default="", repr=False)


@contextmanager
def chart(caption: str, height: float, key: str) -> Iterator[tuple[Figure, Chart]]:
    """A figure of `height` inches to draw into; the chart has its SVG when it is left.

    `key` distinguishes it from the page's other charts; `words` are to be set inside.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    made = Chart(caption, "")
    look = {
        "font.size": 10.5,
        "axes.labelsize": 10.5,
        "legend.fontsize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.fonttype": "none",
        "svg.hashsalt": key,
        "path.simplify_threshold": 0.5,
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
        ),
        "grid.color": FAINT,
    }
    # Only widths of letters are taken from the font that lacks some; the browser has its own.
    with mpl.rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, made
        out = io.StringIO()
        none = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=none)
    made.svg = _inline(out.getvalue(), key, made)


def label(text: str, most: int = 40) -> str:
    """A text from data on a chart: as it is, on one line, no formula, not too long."""
    line = " ".join(plain(text).split())
    return literal(line if len(line) <= most else f"{line[: most - 1]}…")


def _inline(text: str, key: str, made: Chart) -> str:
    root = ElementTree.fromstring(text)
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}defs") and _useless(child):
                parent.remove(child)
    for node in root.iter():
        if not (node.text or "").strip():
            node.text = None
        node.tail = None
        if (node.get("transform") or "").startswith("rotate(-0 "):
            del node.attrib["transform"]
        for name, value in list(node.attrib.items()):
            node.set(name, _attribute(name, value, key))
        if node.tag == f"{{{_SVG}}}g" and not _is_used(node.get("id", "")):
            node.attrib.pop("id", None)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-words")
    for position, (tag, content) in enumerate((("title", made.caption), ("desc", made.words))):
        node = ElementTree.Element(f"{{{_SVG}}}{tag}", id=f"{key}-{'words' if position else tag}")
        node.text = plain(content)
        root.insert(position, node)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _useless(node: ElementTree.Element) -> bool:
    """Metadata, and the style sheet that would hold for the whole page."""
    return node.tag.endswith("metadata") or all(child.tag.endswith("style") for child in node)


def _is_used(name: str) -> bool:
    """Whether something may refer to it: matplotlib's groups have ids that nothing refers to."""
    return not re.search(r"(figure|axes|patch|line2d|text|xtick|ytick|matplotlib|legend)", name)


def _attribute(name: str, value: str, key: str) -> str:
    """An attribute with ids of this chart alone, short numbers and the page's colours."""
    if name == "id":
        return f"{key}-{value}"
    if name.endswith("href"):
        return f"#{key}-{value[1:]}" if value.startswith("#") else value
    if name == "d" or name == "points":
        return _SPACE.sub(" ", _LONG_NUMBER.sub(r"\1", value)).strip()
    if name in ("x", "y", "width", "height", "transform"):
        return value if "matrix" in value else _LONG_NUMBER.sub(r"\1", value)
    if name == "clip-path":
        return value.replace("url(#", f"url(#{key}-")
    if name in ("style", "fill", "stroke"):
        value = _FONT.sub("", value)  # the page's
        return _COLOUR.sub(lambda found: f"var({_VARIABLES[found[0]]})", value)
    return value
