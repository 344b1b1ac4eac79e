"""Figure: which steps of a sequence become which outputs.

Source: "Training a Subsampling Mechanism in Expectation".
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing
from keras_seqmech.analysis.plots import text as figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The most tokens that can be written side by side.
MOST_TOKENS = 100
# Rounding of sums of probabilities.
SLACK = 1e-5


def plot_emission(
    emission: Any,
    tokens: Sequence[Any] | None = None,
    marks: Sequence[int] = (),
    title: str | None = None,
) -> "Figure":
    r"""The probability $p(y_m = s_n)$ that output m is step n of a sequence.

    Args:
        emission: `(U, T)`, a row of an `emission_matrix`: outputs from top to
            bottom, steps from left to right.
        tokens: The token of each step; not written for long sequences.
        marks: Steps, counted from 0, where an output is expected: dashed
            lines.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If `emission` does not hold probabilities, there is not one
            token for each step, or a mark is no step.
        ImportError: If matplotlib is missing.

    Example:

    >>> emission = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.25]]
    >>> figure = plot_emission(emission, tokens=[0, 2, 1], marks=[2])

    Source: figure 1.
    """
    emission = _check_emission(emission)
    outputs, steps = emission.shape
    if tokens is not None and len(tokens) != steps:
        raise ValueError(
            f"Argument `tokens` must hold {steps} tokens. Received: "
            f"tokens={tokens!r}"
        )
    if not all(0 <= mark < steps for mark in marks):
        raise ValueError(
            f"Argument `marks` must hold steps from 0 to {steps - 1}. "
            f"Received: marks={list(marks)}"
        )
    figure = drawing.new_figure(
        2.0 + 0.16 * min(max(steps, 16), 80),
        1.2 + 0.16 * min(max(outputs, 8), 40),
    )
    axes = figure.subplots()
    image = axes.imshow(
        emission,
        cmap="Greys",
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
    )
    for mark in marks:
        axes.axvline(
            mark,
            color=drawing.line_color(0),
            linestyle="dashed",
            linewidth=0.8,
        )
    if tokens is not None and steps <= MOST_TOKENS:
        texts, family = figure_text.drawable([str(token) for token in tokens])
        axes.set_xticks(
            range(steps),
            texts,
            fontsize="x-small",
            fontfamily=family,
            parse_math=False,
        )
    axes.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_xlabel("step n" if tokens is None else "sequence")
    axes.set_ylabel("output m")
    figure.colorbar(image, ax=axes, label="$p(y_m = s_n)$")
    drawing.set_title(figure, title)
    return figure


def _check_emission(emission: Any) -> np.ndarray:
    emission = np.asarray(emission, "float64")
    if emission.ndim != 2 or not emission.size:
        raise ValueError(
            "Argument `emission` must have the shape (U, T), neither of them "
            f"0. Received: emission of shape {emission.shape}"
        )
    if not ((emission >= 0) & (emission <= 1 + SLACK)).all():
        raise ValueError(
            "Argument `emission` must hold probabilities. Received: emission "
            f"from {emission.min()} to {emission.max()}"
        )
    return emission
