"""A callback that warns when decisions no longer depend on the input."""

import math
import warnings

import keras

from keras_seqmech.core import checks
from keras_seqmech.core.decisions.penalties import DecisionPenalties
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.graph import sublayers

EXPLORE = (
    "let them explore first (`entropy` of `ExploreThenCommit`, or a larger "
    "`entropy` of `DecisionPenalties`)"
)
# Advice where decisions are all alike, by the metric of each kind of layer.
REMEDIES = {
    "mean_size": f"{EXPLORE}, lower the weight of `reading`, or set a `target` "
    "with a `target_weight`",
    "openness": f"{EXPLORE}, lower the weight of `reading` where all are "
    "closed, raise it or set a `target` with a `target_weight` where all are "
    "open",
    "kept": "start from probabilities that differ (`EmissionProbabilities`), "
    "set a `target` with a `target_weight`, lower the weight of `reading` "
    f"where none is kept, {EXPLORE}",
}
COMMIT = (
    "raise `indecision` late in training and let `entropy` and "
    "`temperature` fall by then, as `ExploreThenCommit` does; train longer"
)


class WarnOnDecisionCollapse(keras.callbacks.Callback):
    r"""Warns when decisions are all alike, or none is decided at the end.

    Decisions are the sizes of a `ReceptiveFieldRNN`, the gates of a
    `FocusedHierarchicalEncoder` or `BoundaryGate`, and the steps that an
    `ExpectedSubsample` keeps. They may collapse on the first choice that
    helps, and then stay, however long one trains. The callback warns

    - at the end of an epoch, where all decisions of a layer are alike: the
      entropy of its hard decisions over all steps is below
      `min_choice_entropy`, as nearly all sizes are the same, all gates open or
      all closed, all steps kept or none. Epochs before the share `begin` of
      the `fit`, in which decisions may still explore, are not looked at;
    - at the end of training, where hardly any of them is decided: the share of
      decisions whose likeliest value has a probability above 0.9 is below
      `min_certain`. What inference does with hard decisions is then not what
      was trained.

    Each warning names the layer, the numbers seen and the arguments that help,
    and comes once for a layer in a `fit`. Training goes on.

    No warning of equal decisions is given for layers with one size, nor for a
    `target` that equal decisions meet (a whole size, a share of 0 or 1);
    beside another `target`, the bound is at most half of the least entropy
    that meets it.

    It reads the training metrics that `track_statistics=True` adds to the
    logs; layers without them are not watched.

    Args:
        min_choice_entropy: Number of at least 0, in nats, below which
            decisions count as alike; 0 turns this warning off. 0.05 is about
            the entropy where 99 of 100 decisions are equal.
        min_certain: Share, from 0 to 1, below which they count as undecided; 0
            turns this warning off.
        begin: Share of the epochs of the `fit`, from 0 to 1, after which
            decisions that are alike are warned of.

    Raises:
        ValueError: If an argument is not allowed; at the start of training, if
            no layer of the model has `track_statistics=True`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> layer = ReceptiveFieldRNN(keras.layers.GRUCell(4), max_size=3,
    ...                           track_statistics=True)
    >>> model = keras.Sequential([layer, keras.layers.Dense(2)])
    >>> model.compile("adam", "mse")
    >>> x = np.random.default_rng(0).normal(size=(8, 5, 2))
    >>> fit = model.fit(x, x[:, 0], verbose=0,
    ...                 callbacks=[WarnOnDecisionCollapse(min_certain=0)])

    Sources: "An Informative Adaptive Receptive Field Model for Recurrent
    Neural Networks"; "Focused Hierarchical RNNs for Conditional Sequence
    Processing", on training with entropy regularization and sparsity
    constraints; "Training a Subsampling Mechanism in Expectation".
    """

    def __init__(
        self,
        min_choice_entropy: float = 0.05,
        min_certain: float = 0.1,
        begin: float = 0.5,
    ):
        super().__init__()
        self.min_choice_entropy = checks.check_not_negative(
            "min_choice_entropy", min_choice_entropy
        )
        self.min_certain = checks.check_share("min_certain", min_certain)
        self.begin = checks.check_share("begin", begin)
        self._watched: list[keras.Layer] = []
        self._warned: set[str] = set()
        self._logs: dict = {}

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._watched = _find_watched(self.model)
        self._warned = set()
        self._logs = {}

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._logs = logs or {}
        epochs = (self.params or {}).get("epochs") or 1
        if epoch + 1 < self.begin * epochs:
            return
        for layer in self._watched:
            name, found = layer.statistics.prefix, _read(layer, self._logs)
            target_entropy = _target_entropy(layer.penalties)
            least = min(self.min_choice_entropy, target_entropy / 2)
            if found["choice_entropy"] < least and name not in self._warned:
                self._warned.add(name)
                _warn(
                    f"The decisions of layer '{name}' have collapsed: nearly "
                    f"all are alike ({_text(found)} after epoch {epoch + 1}). "
                    "They will hardly recover by themselves: "
                    f"{REMEDIES[next(iter(found))]}."
                )

    def on_train_end(self, logs: dict | None = None) -> None:
        for layer in self._watched:
            found = _read(layer, self._logs)
            if found["certain"] < self.min_certain:
                _warn(
                    f"The decisions of layer '{layer.statistics.prefix}' "
                    f"are undecided at the end of training ({_text(found)}), "
                    f"so hard ones differ from what was trained: {COMMIT}."
                )


def _read(layer: keras.Layer, logs: dict) -> dict[str, float]:
    """A layer's metrics, by the ends of their names; NaN if of no decision.

    The first is how much is read, by the name that it has in `REMEDIES`.
    """
    of = layer.statistics
    prefix = f"{of.prefix}_"
    amount = of.amount.name.removeprefix(prefix)
    entropy = logs.get(of.entropy.name, 0)
    found = {
        name: float(logs.get(prefix + name, math.nan))
        for name in (amount, "choice_entropy", "certain")
    }
    # Decisions without entropy are certain, so none was counted.
    if entropy == found["certain"] == 0:
        return dict.fromkeys(found, math.nan)
    return found


def _text(found: dict[str, float]) -> str:
    (amount, read), (_, entropy), (_, certain) = found.items()
    return (
        f"{amount}={read:.4g}, choice_entropy={entropy:.4g} nats, "
        f"certain={certain:.4g}"
    )


def _find_watched(model: keras.Model) -> list[keras.Layer]:
    """All layers with statistics of decisions that can differ."""
    layers = [
        layer for layer in sublayers(model) if hasattr(layer, "penalty_weights")
    ]
    found = {
        id(layer.statistics): layer
        for layer in layers
        if isinstance(getattr(layer, "statistics", None), DecisionStatistics)
    }
    if not found:
        # A layer and its part share them: the layer is named.
        deciders = {id(x.penalty_weights): x.name for x in reversed(layers)}
        raise ValueError(
            "`WarnOnDecisionCollapse` reads the metrics of layers that decide: "
            "build at least one with `track_statistics=True`. Received: model "
            f"'{model.name}', of whose layers {sorted(deciders.values())} "
            "decide, without metrics"
        )
    return [
        layer
        for layer in found.values()
        if layer.statistics.choice_entropy.choices > 1
    ]


def _target_entropy(penalties: DecisionPenalties) -> float:
    """The least entropy of hard decisions that meet a layer's target."""
    if penalties.target is None:
        return math.inf
    # That of two ints next to the target, with this mean.
    share = penalties.target % 1
    if share:
        rest = 1 - share
        return -share * math.log(share) - rest * math.log(rest)
    # A bound that alike decisions meet does not ask for them.
    return math.inf if penalties.target_of == "row_above" else 0.0


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)
