"""Pictures of pages, drawn by matplotlib as SVG that takes its colours from the page, and the style of these pages.

Ink and grid lines are drawn in colours that nothing else has, and these become variables of the page's style: so one
picture serves light and dark. Pictures are as wide as a phone, and grow with the page.
"""

import io
import re
from collections.abc import Callable
from html import escape
from importlib.resources import files
from typing import Any

INK, QUIET, GRID, PAPER = "#010101", "#010102", "#010103", "#010104"
VARIABLES = {INK: "var(--ink)", QUIET: "var(--quiet)", GRID: "var(--grid)", PAPER: "var(--paper)"}
WIDTH_IN = 4.6
STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": QUIET,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
}


def drawn(name: str, height_in: float, draw: Callable[[Any], None]) -> str:
    """An SVG element; `draw` is given the axes, and `name` is what it is called for those who do not see it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH_IN, height_in))
        draw(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    # Inside a page of HTML neither is of use, and nothing in the page shall look as if it came from elsewhere.
    text = re.sub(r"<metadata>.*?</metadata>|\sxmlns(:xlink)?=\"[^\"]*\"", "", text, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    width, height = f'width="{WIDTH_IN * 72:.6g}pt"', f'height="{height_in * 72:.6g}pt"'
    return text.replace(width, "", 1).replace(height, f'role="img" aria-label="{escape(name, quote=True)}"', 1)


def page_style() -> str:
    """The style sheet of pages with such pictures."""
    return files("roamcast").joinpath("pages.css").read_text()
