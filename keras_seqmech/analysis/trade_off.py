"""Quality of a model and what it reads, over the weight of what is read."""

import warnings
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.analysis.by_layer import Deciding
from keras_seqmech.analysis.by_layer import check_rows
from keras_seqmech.analysis.delay import emission_delay
from keras_seqmech.core import checks
from keras_seqmech.core.graph import input_names
from keras_seqmech.core.graph import sublayers
from keras_seqmech.reading_weight import ReadingWeight

DATA_SETS = (tf.data.Dataset, keras.utils.PyDataset)


def trade_off(
    model: keras.Model,
    inputs: Any,
    weights: Sequence[float],
    targets: Any = None,
    mask: Any = None,
    weight_input: str = "weight",
    batch_size: int | None = None,
    measure: Mapping[str, Callable[[Any, Any], float]] | None = None,
) -> list[dict[str, float]]:
    """Runs a model at several weights of what is read.

    The model takes the weight as an input, to a `keras_seqmech.ReadingWeight`.
    What was recorded at one weight can be run at others: the result says what
    would have been. A `ReadingLimit` is given among the inputs.

    Args:
        model: A built model; compiled if it is evaluated.
        inputs: The other inputs, arrays by name; or a `tf.data.Dataset` or
            `keras.utils.PyDataset` of batches of these and targets.
        weights: Weights, each given to all rows. The model holds those beyond
            what it was trained with at the ends of its range; a warning says
            so.
        targets: What `model.evaluate` takes as `y`, for its loss and metrics.
            A data set has its own.
        mask: Boolean array `(batch, time)`, True at real steps. If None, all
            are, and where sizes are decided, those with a size; so too in
            layers with another number of steps, such as behind a subsample.
            Batches of unequal lengths are padded to the longest: gates and
            kept steps of these need a mask. A data set beside a mask must keep
            its order.
        weight_input: Name of the input that takes the weight.
        batch_size: Rows of a batch; 32 if None.
        measure: Further measures by name, for inputs that are arrays:
            functions of `targets` and of what `model.predict` returns, to one
            number, such as an F1.

    Returns:
        A dict for each weight, in their order, as `pandas.DataFrame` takes
        them: `"weight"`; of each layer that decides, over real steps,
        `"<layer>_mean_delay"`, `"<layer>_delay_percentile"` (the 95th; see
        `emission_delay`; of an `EarlyPooling`, the steps read after the first),
        `"<layer>_longest_delay"` and `"<layer>_at_once"`, the share of steps,
        or rows, that do not wait; or `"<layer>_openness"`, the share
        of open gates, or `"<layer>_kept"`, that of kept steps; what
        `model.evaluate` returns; and the measures.

    Raises:
        ValueError: If the model has no input `weight_input`, the inputs are not
            a data set or a dict of arrays without it, no weight is given, the
            mask fits no layer or has no real step, `measure` is no dict, is
            given beside a data set or returns no number, or the model has no
            `ReadingWeight` or does not decide.

    Warns: Of weights beyond the range, and where weights a hundred times apart
    hardly change what is read.

    Cost: for each weight a run of the model, one for `evaluate` and one for
    measures.

    Example:

    >>> from keras_seqmech import LookAhead, ReadingWeight
    >>> x = keras.Input((None, 3), name="x")
    >>> given = keras.Input((), name="weight")
    >>> y = LookAhead(4, name="look")(x, weight=ReadingWeight(0.01, 0.1)(given))
    >>> model = keras.Model([x, given], keras.layers.LSTM(2)(y))
    >>> points = trade_off(model, {"x": np.ones((2, 5, 3))}, [0.01, 0.1])
    >>> [key for key in points[0] if "delay" in key]
    ['look_mean_delay', 'look_delay_percentile', 'look_longest_delay']
    """
    is_evaluated = targets is not None
    if isinstance(inputs, DATA_SETS):
        if is_evaluated:
            raise ValueError(
                "Argument `targets` must be None beside a data set, which has "
                f"its own. Received: targets of {type(targets).__name__}"
            )
        is_evaluated = _has_targets(inputs)
    elif not isinstance(inputs, Mapping) or weight_input in [*inputs]:
        raise ValueError(
            "Argument `inputs` must be a data set of batches, or a dict of "
            "arrays by the names of the model's inputs, without "
            f"{weight_input!r}. Received: inputs of class "
            f"{type(inputs).__name__}"
        )
    else:
        inputs = dict(inputs)
    check_rows("inputs", inputs)
    if measure is not None and (
        not isinstance(measure, Mapping) or isinstance(inputs, DATA_SETS)
    ):
        raise ValueError(
            "Argument `measure` must be a dict of functions, and needs inputs "
            "that are arrays: a data set may have another order each time. "
            f"Received: measure={measure!r}, inputs of class "
            f"{type(inputs).__name__}"
        )
    parts = keras.tree.flatten(weights)
    weights = [x for part in parts for x in np.ravel(part).tolist()]
    weights = [float(checks.check_not_negative("weights", x)) for x in weights]
    if not weights:
        raise ValueError(
            "Argument `weights` must hold a number. Received: weights=[]"
        )
    _warn_if_held(model, weights)
    names = input_names(getattr(model, "network", model))
    if names and weight_input not in names:
        raise ValueError(
            "Argument `weight_input` must be the name of an input of the "
            f"model, one of {names}. Received: weight_input={weight_input!r}"
        )
    if mask is not None:
        checks.check_mask("mask", mask, (None, None))
        mask = np.asarray(mask).astype(bool)
    points, deciding = [], Deciding(model)
    for weight in weights:
        given = _with_weight(inputs, weight_input, weight)
        point = {"weight": weight}
        decided = _by_step(deciding.decisions(given, batch_size))
        if mask is not None:
            _check_mask(mask, decided.values())
        for (layer, name), x in decided.items():
            measures = _measures(name, x, mask)
            point |= {f"{layer}_{key}": value for key, value in measures}
        if is_evaluated:
            found = model.evaluate(
                given, targets, batch_size, verbose=0, return_dict=True
            )
            # A layer's own statistics know no `mask`.
            point |= {name: x for name, x in found.items() if name not in point}
        if measure:
            predicted = model.predict(given, batch_size, verbose=0)
            for name, function in measure.items():
                value = np.asarray(function(targets, predicted))
                if (
                    name in point
                    or value.ndim
                    or value.dtype.kind not in "fiub"
                ):
                    raise ValueError(
                        "Argument `measure` must hold functions that return "
                        f"one number, under names other than {list(point)}. "
                        f"Received: {value!r} of {name!r}"
                    )
                point[name] = float(value)
        points.append(point)
    _warn_if_flat(model, points)
    return points


def _has_targets(batches: tf.data.Dataset | keras.utils.PyDataset) -> bool:
    if isinstance(batches, tf.data.Dataset):
        is_endless = batches.cardinality() == tf.data.INFINITE_CARDINALITY
        batch = batches.element_spec
    else:
        is_endless = batches.num_batches is None
        batch = batches[0]
    if is_endless:
        raise ValueError(
            "Argument `inputs` must be a data set that ends. Received: "
            f"inputs={batches!r}, which does not"
        )
    x, *rest = batch if isinstance(batch, tuple) else (batch,)
    if not isinstance(x, Mapping):
        raise ValueError(
            "Argument `inputs` must have batches with a dict of inputs. "
            f"Received: inputs of {type(x).__name__}"
        )
    return bool(rest)


def _with_weight(inputs: Any, name: str, weight: float) -> Any:
    """The inputs, or those of each batch, with one weight for all rows."""
    if isinstance(inputs, tf.data.Dataset):

        def add(x: Mapping[str, Any], *rest: Any) -> Any:
            given = {**x, name: tf.fill([_rows(x)], weight)}
            return (given, *rest) if rest else given

        return inputs.map(add)
    if isinstance(inputs, keras.utils.PyDataset):
        return _Weighted(inputs, name, weight)
    return {**inputs, name: np.full(_rows(inputs), weight, "float32")}


def _rows(inputs: Mapping[str, Any]) -> Any:
    arrays = keras.tree.flatten(dict(inputs))
    return ops.shape(next(x for x in arrays if x is not None))[0]


class _Weighted(keras.utils.PyDataset):
    """A data set whose inputs have a weight, too."""

    def __init__(
        self, batches: keras.utils.PyDataset, name: str, weight: float
    ):
        super().__init__(
            workers=batches.workers,
            use_multiprocessing=batches.use_multiprocessing,
            max_queue_size=batches.max_queue_size,
        )
        self.batches, self.name, self.weight = batches, name, weight

    def __len__(self) -> int:
        return self.batches.num_batches

    def __getitem__(self, index: int) -> Any:
        batch = self.batches[index]
        x, *rest = batch if isinstance(batch, tuple) else (batch,)
        return (_with_weight(x, self.name, self.weight), *rest)


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


def _warn_if_flat(
    model: keras.Model, points: Sequence[Mapping[str, float]]
) -> None:
    """Warns where weights far apart read about the same."""
    weights = [x["weight"] for x in points]
    if max(weights) < 100 * min(weights):
        return
    names = "_mean_delay", "_openness", "_kept"
    given = {
        f"{layer.name}{name}"
        for layer in sublayers(model)
        if any(getattr(x, "takes_weight", False) for x in sublayers(layer))
        for name in names
    }
    read = [key for key in points[0] if key.endswith(names)]
    # If no layer that decides is given the weight, it was forgotten.
    for key in [x for x in read if x in given] or read:
        values = [x[key] for x in points]
        if max(values) < 1.25 * min(values) or not any(values):
            warnings.warn(
                f"{key!r} is between {min(values):.3g} and {max(values):.3g} "
                f"at weights from {min(weights):g} to {max(weights):g}: the "
                "weight hardly matters, if no limit among the inputs holds "
                "what is read. Give it to all that decides; train "
                "longer, with a wider range of `ReadingWeight`, or, of sizes "
                "and gates, explore longer, by "
                "`ExploreThenCommit(entropy=(1, 0, 0, 0.6, 3))`",
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
    if decided.ndim == 1:
        # One answer a row, which waits for all that it read.
        delays = decided[decided > 0] - 1
    else:
        delays = emission_delay(decided, mask)[mask]
    if not delays.size:
        raise ValueError(
            "Argument `inputs` must have a row with a real step. Received: "
            "sizes of 0 everywhere"
        )
    return [
        ("mean_delay", float(np.mean(delays))),
        ("delay_percentile", float(np.percentile(delays, 95))),
        ("longest_delay", float(np.max(delays))),
        ("at_once", float(np.mean(delays == 0))),
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
