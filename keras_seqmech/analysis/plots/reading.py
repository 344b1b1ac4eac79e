"""Figures: how a classifier's answer comes about while it reads.

Source: "RNNs for arXiv/viXra title classification", on interpretation.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing
from keras_seqmech.analysis.plots import text as figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The most characters shown of a token.
LONGEST = 24


def plot_probability_by_token(
    tokens: Sequence[Any],
    logits: Any,
    classes: tuple[str, str] = ("0", "1"),
    title: str | None = None,
) -> "Figure":
    """Probability and logit of a class after each token, one above the other.

    Args:
        tokens: What is read: words or characters.
        logits: The model's logit after each of them, such as its answers to
            `keras_seqmech.analysis.prefixes`.
        classes: Names of what logits below and above 0 stand for.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is not one finite logit for each of at least one
            token.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_probability_by_token(
    ...     ["A", "new", "proof"], [-0.4, 0.3, 2.0], ("real", "made")
    ... )
    """
    values = np.asarray(logits, "float64")
    if not len(tokens) or values.shape != (len(tokens),):
        raise ValueError(
            "Argument `logits` must have one number for each token. Received: "
            f"logits.shape={values.shape}, {len(tokens)} tokens"
        )
    if not np.isfinite(values).all():
        raise ValueError(
            f"Argument `logits` must be finite. Received: logits={logits!r}"
        )
    # Both tails without overflow.
    probabilities = 0.5 * (1 + np.tanh(values / 2))
    figure = drawing.new_figure(_width(tokens), 4.4)
    panels = figure.subplots(2, sharex=True)
    style = {"marker": "o", "markersize": 4, **drawing.line_style(0)}
    for axes, y, middle in zip(panels, (probabilities, values), (0.5, 0.0)):
        axes.axhline(middle, color="0.6", linewidth=1.0, zorder=1)
        axes.plot(range(len(y)), y, **style)
        drawing.clear_frame(axes, grid=True)
    shown, family = figure_text.drawable([str(name) for name in classes])
    panels[0].set_ylim(-0.05, 1.05)
    for axes, label in zip(panels, (f"P({shown[1]})", "logit")):
        axes.set_ylabel(label, fontfamily=family, parse_math=False)
    _name_steps(panels[1], tokens)
    drawing.set_title(figure, title)
    return figure


def plot_units_by_token(
    values: Any,
    tokens: Sequence[Any],
    title: str | None = None,
) -> "Figure":
    """Units over tokens, as a picture: red raises the logit, blue lowers it.

    Args:
        values: `(tokens, units)`, such as
            `keras_seqmech.analysis.weighted_units` gives them.
        tokens: What is read.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`, a row for each unit.

    Raises:
        ValueError: If `values` is no such array of finite numbers.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_units_by_token([[0.1, -1.0], [0.5, 0.0]], ["A", "proof"])
    """
    array = np.asarray(values, "float64")
    if (
        array.ndim != 2
        or not array.size
        or len(array) != len(tokens)
        or not np.isfinite(array).all()
    ):
        raise ValueError(
            "Argument `values` must hold finite numbers, (tokens, units). "
            f"Received: values.shape={array.shape}, {len(tokens)} tokens"
        )
    height = min(7.0, 1.8 + 0.08 * array.shape[1])
    figure = drawing.new_figure(_width(tokens) + 0.8, height)
    axes = figure.subplots()
    largest = float(np.abs(array).max()) or 1.0
    image = axes.imshow(
        array.T,
        cmap="RdBu_r",
        vmin=-largest,
        vmax=largest,
        aspect="auto",
        interpolation="nearest",
    )
    axes.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_ylabel("unit")
    _name_steps(axes, tokens)
    figure.colorbar(image, ax=axes, label="share in the logit")
    drawing.set_title(figure, title)
    return figure


def _is_upright(tokens: Sequence[Any]) -> bool:
    """Whether all tokens are characters, which need no turning."""
    return all(len(str(token)) <= 1 for token in tokens)


def _width(tokens: Sequence[Any]) -> float:
    step = 0.16 if _is_upright(tokens) else 0.42
    return min(20.0, max(4.8, 1.2 + step * len(tokens)))


def _name_steps(axes: Any, tokens: Sequence[Any]) -> None:
    names = [_shorten(str(token)) for token in tokens]
    texts, family = figure_text.drawable(names)
    axes.set_xticks(
        range(len(tokens)),
        texts,
        fontsize="small",
        fontfamily=family,
        parse_math=False,
        rotation=0 if _is_upright(tokens) else 60,
        ha="center" if _is_upright(tokens) else "right",
        rotation_mode="anchor",
    )


def _shorten(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."
