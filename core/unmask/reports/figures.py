"""Figures and pictures that travel inside an HTML file."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["inline_svg", "picture"]

_INK = "#010203"
"""Stands for the reader's own text colour until the figure is drawn."""


def inline_svg(draw: Callable[[], Axes], name: str) -> str:
    """A figure as SVG that takes the text colour and the font of the page around it.

    Args:
        draw: Draws it in a new figure.
        name: Read aloud in place of the figure; also keeps its identifiers apart from those of others.
    """
    from matplotlib import rc_context

    inks = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
    settings: Any = {
        **dict.fromkeys(inks, _INK),
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.facecolor": "none",
        "legend.framealpha": 0.0,
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": "sans-serif",
    }
    stream = io.StringIO()
    with rc_context(settings):
        figure = draw().get_figure(root=True)
        assert figure is not None
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(?:xlink:)?href="#', f'href="#{_slug(name)}-', text)
    text = re.sub(r'\bid="', f'id="{_slug(name)}-', text)
    text = text.replace("url(#", f"url(#{_slug(name)}-")
    # The page gives the width; the view box keeps the proportions.
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", text, count=1)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_slug(name)}" ', 1)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def picture(image: NDArray[Any], low: float, high: float) -> str:
    """An image [channel, height, width] as a PNG in a data URL, `low` black and `high` white.

    One channel is grey, three are colours; of any other number the mean is shown.
    """
    from PIL import Image

    scaled = np.clip((image.astype(np.float64) - low) / max(high - low, 1e-12), 0, 1)
    if scaled.shape[0] not in (1, 3):
        scaled = scaled.mean(0, keepdims=True)
    pixels = np.round(255 * np.nan_to_num(scaled)).astype(np.uint8).transpose(1, 2, 0)
    stream = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(stream, "PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
