"""How a classifier comes to its answer, and pictures of what it says."""

from typing import NamedTuple

import keras
import numpy as np
from matplotlib.figure import Figure
from sklearn import metrics

from examples.titles import encoding
from examples.titles.data import CLASSES
from examples.titles.training import BATCH
from examples.titles.training import Trained

# How many units are drawn: those with the largest weights.
UNITS = 32


class Reading(NamedTuple):
    """A title as it is read, with the logit after each token.

    `logit` is the answer: the last one, or what is said of nothing.
    """

    title: str | bytes
    tokens: list[str]
    logits: np.ndarray
    logit: float

    @property
    def probability(self) -> float:
        """Probability of being machine-made."""
        return float(probability(self.logit))

    def table(self) -> str:
        """Probability and logit after each token, a line for each."""
        title = repr(self.title)[:80]
        lines = [
            f"{title}: machine-made with probability {self.probability:.3f}",
            "  prob.    logit  after",
        ]
        lines += [
            f"{probability(logit):6.3f} {logit:8.2f}  {token}"
            for token, logit in zip(shown(self.tokens), self.logits)
        ]
        return "\n".join(lines)


def probability(logits: np.ndarray | float) -> np.ndarray | float:
    """The sigmoid of logits, without overflow.

    >>> float(probability(0.0)), float(probability(-1e5))
    (0.5, 0.0)
    """
    return 0.5 * (1 + np.tanh(np.asarray(logits, "float64") / 2))


def read(trained: Trained, title: str | bytes) -> Reading:
    """What a classifier answers after each step of a title.

    The logit after a step is that of the title cut after it, so it is defined
    for all read-outs and directions.
    """
    inputs, length = trained.settings.inputs, trained.length
    tokens = encoding.tokens(inputs, title, length)
    (ids,) = encoding.encode(trained.encoder, [title])
    # The title cut after each step, and whole.
    steps = np.arange(len(ids))
    cut = np.where(steps <= steps[:, None], ids, encoding.PADDING)
    rows = np.concatenate([cut[: len(tokens)], ids[None]])
    logits = trained.network.predict(rows, batch_size=BATCH, verbose=0)[:, 0]
    return Reading(title, tokens, logits[:-1], float(logits[-1]))


def weighted_units(trained: Trained, title: str | bytes) -> np.ndarray:
    """Share of each unit in the logit after each step, `(tokens, units)`.

    The states are scaled by the last layer's weights, as in the source. With
    the read-out `last`, the shares of a step add up to its logit.
    """
    network = trained.network
    states = keras.Model(network.input, network.get_layer("states").output)
    (ids,) = encoding.encode(trained.encoder, [title])
    weights, bias = network.get_layer("logit").get_weights()
    found = states.predict(ids[None], verbose=0)[0, : np.count_nonzero(ids)]
    units = found.shape[1]
    return found * weights[:units, 0] + bias[0] / units


def shown(tokens: list[str]) -> list[str]:
    """Tokens as they are printed: spaces are seen, long ones cut."""
    return ["\u2423" if token == " " else token[:24] for token in tokens]


def draw_roc(
    labels: np.ndarray, probabilities: dict[str, np.ndarray]
) -> Figure:
    """ROC curves of several models."""
    figure = _figure(4.6, 4.4)
    axes = figure.subplots()
    for name, found in probabilities.items():
        metrics.RocCurveDisplay.from_predictions(
            labels, found, name=name, ax=axes
        )
    return figure


def draw_answers(read: Reading) -> Figure:
    """Probability and logit after each token, one above the other."""
    figure = _figure(1.2 + 0.42 * len(read.tokens), 4.4)
    above, below = figure.subplots(2, sharex=True)
    above.plot(probability(read.logits), "o-")
    below.plot(read.logits, "o-")
    above.set(ylabel=f"P({CLASSES[1]})", ylim=(-0.05, 1.05))
    below.set_ylabel("logit")
    for axes, middle in ((above, 0.5), (below, 0.0)):
        axes.axhline(middle, color="0.6", linewidth=1.0)
    _name_steps(below, read)
    return figure


def draw_units(trained: Trained, read: Reading) -> Figure:
    """Units after each token: red raises the logit, blue lowers it."""
    values = weighted_units(trained, read.title)
    # In the same order for all titles.
    weights, _ = trained.network.get_layer("logit").get_weights()
    largest = np.argsort(-np.abs(weights[: values.shape[1], 0]))[:UNITS]
    values = values[:, largest].T
    figure = _figure(2.0 + 0.42 * len(read.tokens), 1.8 + 0.08 * len(values))
    axes = figure.subplots()
    most = np.abs(values).max()
    image = axes.imshow(
        values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto"
    )
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("unit")
    _name_steps(axes, read)
    figure.colorbar(image, ax=axes, label="share in the logit")
    return figure


def _name_steps(axes, read):
    style = {"rotation": 60, "ha": "right", "parse_math": False}
    axes.set_xticks(range(len(read.tokens)), shown(read.tokens), **style)


def _figure(width, height):
    size = (max(4.6, min(width, 20.0)), height)
    return Figure(figsize=size, layout="constrained")
