"""Figures: which steps gates let through.

Source: "Focused Hierarchical RNNs for Conditional Sequence Processing".
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Black is drawn as this grey, on which red stands out as it does on white.
DARKEST = 0.35
OPEN = np.array([0.86, 0.1, 0.1])
PER_ROW = 5


def plot_accuracy_by_openness(
    points: Mapping[str, Sequence[tuple[float, float]]],
    title: str | None = None,
) -> "Figure":
    """Accuracy against gate openness, a point for each trained model.

    Args:
        points: For each kind of model pairs `(openness, accuracy)`, shares
            from 0 to 1.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no kind of model, or a point is not a pair of
            shares.
        ImportError: If matplotlib is missing.

    Example:

    >>> points = {"reinforce": [(0.1, 0.99), (0.5, 0.97)], "relaxed": []}
    >>> figure = plot_accuracy_by_openness(points)

    Source: figure 2.
    """
    if not points:
        raise ValueError(
            "Argument `points` must hold at least one kind of model. "
            f"Received: points={points!r}"
        )
    clouds = {}
    for name, pairs in points.items():
        cloud = np.array(list(pairs), "float64")
        fits = not cloud.size or (cloud.ndim == 2 and cloud.shape[1] == 2)
        if not fits or not _are_shares(cloud):
            raise ValueError(
                "Argument `points` must hold pairs of shares from 0 to 1. "
                f"Received: points[{name!r}]={pairs!r}"
            )
        clouds[name] = cloud.reshape(-1, 2)
    figure = drawing.new_figure(6.4, 4.0)
    axes = figure.subplots()
    for i, cloud in enumerate(clouds.values()):
        cloud = cloud[np.argsort(cloud[:, 0])]
        color = drawing.line_color(i)
        axes.plot(*(100 * cloud.T), "o", color=color, markersize=5)
    axes.set_xlabel("gate openness (%)")
    axes.set_ylabel("accuracy (%)")
    axes.set_xlim(-2, 102)
    drawing.clear_frame(axes, grid=True)
    drawing.draw_legend(axes, clouds, **drawing.BESIDE)
    drawing.set_title(figure, title)
    return figure


def plot_openness_by_position(
    curves: Mapping[Any, Any],
    marks: Mapping[Any, float] | None = None,
    title: str | None = None,
) -> "Figure":
    """Gate openness by position in the sequence, a panel for each context.

    Args:
        curves: For each context the openness at each position, shares from 0
            to 1 or NaN, as `openness_by_context` gives them.
        marks: For some contexts the position asked about, counted from 1: a
            red line.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no curve, one is no list of shares, or a mark
            belongs to none.
        ImportError: If matplotlib is missing.

    Example:

    >>> curves = {2: [0.1, 0.9, 0.2], 3: [0.1, 0.2, 0.9]}
    >>> figure = plot_openness_by_position(curves, marks={2: 2, 3: 3})

    Source: figure 3.
    """
    marks = marks or {}
    if not curves or not set(marks) <= set(curves):
        raise ValueError(
            "Argument `curves` must hold at least one curve, and one for each "
            f"of `marks`. Received: curves of {list(curves)}, marks of "
            f"{list(marks)}"
        )
    curves = {key: _check_curve(key, curve) for key, curve in curves.items()}
    rows = len(curves)
    figure = drawing.new_figure(7.4, 0.8 + 1.2 * rows)
    panels = figure.subplots(rows, 1, squeeze=False, sharex=True, sharey=True)
    for axes, (context, curve) in zip(panels[:, 0], curves.items()):
        places = np.arange(1, len(curve) + 1)
        axes.fill_between(
            places, curve, step="mid", color=drawing.line_color(0), alpha=0.8
        )
        if context in marks:
            axes.axvline(marks[context], color="red", linewidth=1.2)
        axes.set_title(
            str(context), loc="right", fontsize="small", parse_math=False
        )
        drawing.clear_frame(axes, grid=True)
    longest = max(map(len, curves.values()))
    panels[0, 0].set_ylim(0, 1)
    panels[0, 0].set_xlim(0.5, longest + 0.5)
    panels[-1, 0].set_xlabel("position")
    figure.supylabel("gate openness")
    drawing.set_title(figure, title)
    return figure


def plot_gates_over_image(
    images: Any,
    gates: Any,
    captions: Sequence[str] | None = None,
    title: str | None = None,
) -> "Figure":
    """Images with the pixels red at which the gate is open.

    The digit is white on grey; a gate that is half open is half red.

    Args:
        images: `(N, H, W)` from 0 (black) to 1 (white).
        gates: `(N, H * W)` from 0 to 1, of the pixels row by row, as they are
            read.
        captions: What to write over each image.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the arguments do not fit each other.
        ImportError: If matplotlib is missing.

    Example:

    >>> gates = np.eye(8).reshape(1, 64)
    >>> figure = plot_gates_over_image(np.zeros((1, 8, 8)), gates)

    Source: figure 4.
    """
    images, gates = _check_images(images, gates)
    if captions is not None and len(captions) != len(images):
        raise ValueError(
            f"Argument `captions` must hold {len(images)} captions. "
            f"Received: captions={captions!r}"
        )
    columns = min(PER_ROW, len(images))
    rows = -(-len(images) // columns)
    figure = drawing.new_figure(1.5 * columns, 1.7 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    for i, (image, gate) in enumerate(zip(images, gates)):
        panels[i].imshow(_overlay(image, gate), interpolation="nearest")
        if captions is not None:
            panels[i].set_title(
                str(captions[i]), fontsize="small", parse_math=False
            )
    drawing.set_title(figure, title)
    return figure


def _overlay(image: np.ndarray, gate: np.ndarray) -> np.ndarray:
    """Colors `(H, W, 3)`: the image in greys, red where the gate is open."""
    grey = DARKEST + (1 - DARKEST) * image[..., None]
    share = gate.reshape(image.shape)[..., None]
    return (1 - share) * grey + share * OPEN


def _check_curve(key: Any, curve: Any) -> np.ndarray:
    array = np.asarray(curve, "float64")
    known = array[~np.isnan(array)]
    if array.ndim != 1 or not array.size or not _are_shares(known):
        raise ValueError(
            "Argument `curves` must hold sequences of shares from 0 to 1 or "
            f"NaN. Received: curves[{key!r}]={curve!r}"
        )
    return array


def _check_images(images: Any, gates: Any) -> tuple[np.ndarray, np.ndarray]:
    images = np.asarray(images, "float64")
    gates = np.asarray(gates, "float64")
    fits = images.ndim == 3 and images.size
    if not fits or gates.shape != (len(images), images[0].size):
        raise ValueError(
            "Arguments `images` and `gates` must have the shapes (N, H, W) "
            f"and (N, H * W). Received: images of shape {images.shape}, gates "
            f"of shape {gates.shape}"
        )
    for name, array in (("images", images), ("gates", gates)):
        if not _are_shares(array):
            raise ValueError(
                f"Argument `{name}` must hold numbers from 0 to 1. "
                f"Received: {name} from {array.min()} to {array.max()}"
            )
    return images, gates


def _are_shares(array: np.ndarray) -> bool:
    return bool(((array >= 0) & (array <= 1)).all())
