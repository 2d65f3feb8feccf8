"""The page's HTML from its sections: no script, nothing from elsewhere, every text escaped."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from embedexp.runs.text import plain

if TYPE_CHECKING:
    from .build import Page


def render(page: Page) -> str:
    """The whole document; the same page gives the same bytes."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        """A text without control characters; jinja escapes it."""
        return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader(__package__ or "", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Ours: the style sheet, and drawings whose texts the XML writer has escaped.
    environment.filters["drawing"] = Markup
    style = files(__package__ or "").joinpath("style.css").read_text("utf-8")
    return environment.get_template("page.html.jinja").render(page=page, style=Markup(style))
