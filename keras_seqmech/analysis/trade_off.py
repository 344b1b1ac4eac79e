"""Quality of a model and what it reads, over the weight of what is read."""

import warnings
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_seqmech.analysis.by_layer import Deciding
from keras_seqmech.analysis.by_layer import check_rows
from keras_seqmech.analysis.delay import emission_delay
from keras_seqmech.core import checks
from keras_seqmech.core.graph import sublayers
from keras_seqmech.reading_weight import ReadingWeight


def trade_off(
    model: keras.Model,
    inputs: Mapping[str, Any],
    weights: Sequence[float],
    targets: Any = None,
    mask: Any = None,
    weight_input: str = "weight",
    batch_size: int | None = None,
) -> list[dict[str, float]]:
    """Runs a model at several weights of what is read.

    The model takes the weight as an input, to a `keras_seqmech.ReadingWeight`.

    Args:
        model: A built model; compiled if there are targets.
        inputs: The other inputs, arrays by name.
        weights: Weights, each given to all rows. The model holds those beyond
            what it was trained with at the ends of its range; a warning says
            so.
        targets: What `model.evaluate` takes as `y`, for its loss and metrics.
        mask: Boolean array `(batch, time)`, True at real steps. If None, all
            are, and where sizes are decided, those with a size; so too in
            layers with another number of steps, such as behind a subsample.
        weight_input: Name of the input that takes the weight.
        batch_size: Rows of a batch; 32 if None.

    Returns:
        A dict for each weight, in their order: `"weight"`; of each layer that
        decides, over real steps, `"<layer>_mean_delay"` and
        `"<layer>_delay_percentile"` (the 95th; see `emission_delay`),
        `"<layer>_openness"`, the share of open gates, or `"<layer>_kept"`, that
        of kept steps; and what `model.evaluate` returns.

    Raises:
        ValueError: If the inputs are not a dict of arrays without the weight,
            no weight is given, the mask fits no layer or has no real step, or
            the model has no `ReadingWeight` or does not decide.

    Cost: two runs of the model for each weight.

    Example:

    >>> from keras_seqmech import LookAhead, ReadingWeight
    >>> x = keras.Input((None, 3), name="x")
    >>> given = keras.Input((), name="weight")
    >>> y = LookAhead(4, name="look")(x, weight=ReadingWeight(0.01, 0.1)(given))
    >>> model = keras.Model([x, given], keras.layers.LSTM(2)(y))
    >>> points = trade_off(model, {"x": np.ones((2, 5, 3))}, [0.01, 0.1])
    >>> list(points[0])
    ['weight', 'look_mean_delay', 'look_delay_percentile']
    """
    if not isinstance(inputs, Mapping) or weight_input in inputs:
        raise ValueError(
            "Argument `inputs` must be a dict of arrays by the names of the "
            f"model's inputs, without {weight_input!r}. Received: inputs of "
            f"class {type(inputs).__name__}"
        )
    check_rows("inputs", dict(inputs))
    parts = keras.tree.flatten(weights)
    weights = [x for part in parts for x in np.ravel(part).tolist()]
    weights = [float(checks.check_not_negative("weights", x)) for x in weights]
    if not weights:
        raise ValueError(
            "Argument `weights` must hold a number. Received: weights=[]"
        )
    _warn_if_held(model, weights)
    arrays = keras.tree.flatten(dict(inputs))
    rows = next(len(x) for x in arrays if x is not None)
    if mask is not None:
        checks.check_mask("mask", mask, (None, None))
        mask = np.asarray(mask).astype(bool)
    points, deciding = [], Deciding(model)
    for weight in weights:
        given = {**inputs, weight_input: np.full(rows, weight, "float32")}
        point = {"weight": weight}
        decided = _by_step(deciding.decisions(given, batch_size))
        if mask is not None:
            _check_mask(mask, decided.values())
        for (layer, name), x in decided.items():
            measures = _measures(name, x, mask)
            point |= {f"{layer}_{key}": value for key, value in measures}
        if targets is not None:
            point |= model.evaluate(
                given, targets, batch_size, verbose=0, return_dict=True
            )
        points.append(point)
    return points


def weight_within(
    points: Sequence[Mapping[str, float]], measure: str, most: float
) -> float:
    """The smallest weight at which a measure is within a budget.

    Args:
        points: What `trade_off` returns, of validation data.
        measure: A key of the points, such as `"look_mean_delay"`.
        most: The budget.

    Raises:
        ValueError: If the points do not have the measure, or none is within
            the budget.

    Example:

    >>> points = [{"weight": 0.01, "delay": 2.5}, {"weight": 0.1, "delay": 1.0}]
    >>> weight_within(points, "delay", 1.5)
    0.1
    """
    check_measure("measure", measure, points)
    within = [x["weight"] for x in points if x[measure] <= most]
    if not within:
        least = min(x[measure] for x in points)
        raise ValueError(
            f"Argument `most` must be at least {least:g}, the least "
            f"{measure!r} of the points. Received: most={most}"
        )
    return min(within)


def check_measure(
    name: str, measure: str, points: Sequence[Mapping[str, float]]
) -> None:
    """Refuses a measure that not all points have."""
    missing = [x for x in points if measure not in x]
    if missing or not points:
        names = sorted(missing[0]) if missing else []
        raise ValueError(
            f"Argument `{name}` must be a key of all points. "
            f"Received: {name}={measure!r}, points with {names}"
        )


def _warn_if_held(model: keras.Model, weights: Sequence[float]) -> None:
    layers = [x for x in sublayers(model) if isinstance(x, ReadingWeight)]
    if not layers:
        raise ValueError(
            "Argument `model` must take the weight of what is read, to a "
            f"`ReadingWeight`. Received: model={model!r}, which has none"
        )
    for layer in layers:
        # What float32 rounds is within.
        least, most = layer.least * (1 - 1e-6), layer.most * (1 + 1e-6)
        held = [x for x in weights if not least <= x <= most]
        if held:
            warnings.warn(
                f"The weights {held} are beyond those of training, and are "
                f"held at {layer.least:g} or {layer.most:g}",
                UserWarning,
                stacklevel=3,
            )


def _by_step(
    found: dict[str, dict[str, np.ndarray]],
) -> dict[tuple[str, str], np.ndarray]:
    """Decisions by step, `(batch, time)`, by layer and name."""
    decided = {}
    for layer, values in found.items():
        if "size" in values:
            decided[layer, "size"] = values["size"]
        elif "gates" in values:
            decided[layer, "openness"] = values["gates"]
        elif "emission" in values:
            decided[layer, "kept"] = values["emission"].sum(axis=1)
    return decided


def _measures(name: str, decided: np.ndarray, mask: Any) -> list:
    """Measures of what a layer decided, by name."""
    if mask is None or mask.shape != decided.shape:
        # Masked steps have a size of 0.
        mask = decided > 0 if name == "size" else np.ones(decided.shape, "bool")
    if name != "size":
        return [(name, float(np.mean(decided[mask])))]
    delays = emission_delay(decided, mask)[mask]
    return [
        ("mean_delay", float(np.mean(delays))),
        ("delay_percentile", float(np.percentile(delays, 95))),
    ]


def _check_mask(mask: np.ndarray, decided: Iterable[np.ndarray]) -> None:
    shapes = [x.shape for x in decided]
    if mask.shape not in shapes:
        raise ValueError(
            "Argument `mask` must be of a shape that decisions have, one of "
            f"{shapes}. Received: mask.shape={mask.shape}"
        )
    if not mask.any():
        raise ValueError(
            "Argument `mask` must be True at a real step. Received: mask=False "
            "everywhere"
        )
