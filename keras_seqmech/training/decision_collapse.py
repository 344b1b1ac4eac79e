"""A callback that warns when decisions no longer depend on the input."""

import math
import warnings
import weakref

import keras

from keras_seqmech.core import checks
from keras_seqmech.core.decisions.learning import DecisionPenalties
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.graph import sublayers

EXPLORE = (
    "let them explore first (`entropy` of `ExploreThenCommit`, or a larger "
    "`entropy` of `DecisionPenalties`)"
)
COMMIT = (
    "raise `indecision` late in training and let `entropy` and "
    "`temperature` fall by then, as `ExploreThenCommit` does; train longer"
)
RUNNING_SUM = 'try `inference="running_sum"`, which needs no certainty'
# Of modes of inference, those that take the likelier choice.
LIKELIEST = ("greedy", "threshold")
STRAIGHT_THROUGH = 'take `estimator="straight_through"`'
# End of a metric's name.
DEVIATION = "_logit_deviation"
COLLAPSED, UNDECIDED = "have collapsed", "are undecided at the end of training"
# The warnings of this fit by a layer's statistics: each once, though several
# callbacks look.
_warned: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


class WarnOnDecisionCollapse(keras.callbacks.Callback):
    r"""Warns when decisions are certain too early, all alike or never made.

    Decisions are the sizes of a `ReceptiveFieldRNN` or `LookAhead`, the gates
    of a `FocusedHierarchicalEncoder` or `BoundaryGate`, the steps that an
    `ExpectedSubsample` keeps, and where an `EarlyPooling` stops. They may
    collapse on the first choice that helps, and then stay, however long one
    trains. The callback warns

    - after the first step of a new optimizer, where the probabilities of an
      `ExpectedSubsample` with `estimator="expectation"` are 0 and 1 before
      anything was learned, so that they have no gradient: more than 98 %
      of what is kept is certain, and less than nine tenths are kept;
    - at the end of an epoch, where all decisions of a layer are alike and
      nothing is learned. The entropy of its hard decisions over all steps is
      below `min_choice_entropy`, as nearly all sizes are the same, all gates
      open or all closed, all steps kept or all left out; but not where few
      are open, and most of these for certain, since few may matter. And the
      loss, `val_loss` if there is one, is not 5 % below what it was after half
      of the epochs so far. Epochs before the share `begin` of the `fit`, in
      which decisions may still explore, are skipped. The penalties of decisions
      are no part of the loss here;
    - at the end of training, where few of them are decided, and inference is
      by the likelier choice, `"greedy"` or `"threshold"`: the metric `_certain`
      is below `min_certain`, and more than a hundredth is read. What inference
      does is then not what was trained;
    - at the end of training, where a layer misses its target: what is read is
      more than twice the `target` or less than half of it, and more than 0.05
      away, though most decisions are certain or hardly a step is read.

    Each warning names the layer, the numbers seen and the arguments that help,
    and comes once for a layer in a `fit`. Training goes on. An
    `ExploreThenCommit` gives all but the third by itself, that of alike
    decisions once it has come to its end.

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
        self._is_new = False
        self._logs: dict = {}
        # Losses of the epochs of this fit, by name.
        self._losses: dict[str, list[float]] = {}
        # Deviations of logits at an optimizer's first step, by metric.
        self._deviations: dict[str, float] = {}

    def on_train_begin(self, logs: dict | None = None) -> None:
        if not _with_statistics(self.model):
            layers = [*sublayers(self.model)][::-1]
            # A layer and its part share weights: the layer is named.
            deciders = {
                id(x.penalty_weights): x.name
                for x in layers
                if hasattr(x, "penalty_weights")
            }
            raise ValueError(
                "`WarnOnDecisionCollapse` reads the metrics of layers that "
                "decide: build at least one with `track_statistics=True`. "
                f"Received: model '{self.model.name}', of whose layers "
                f"{sorted(deciders.values())} decide, without metrics"
            )
        self.watch(self.model, self.params)

    def watch(self, model: keras.Model, params: dict | None) -> None:
        """Begins to watch the layers of a model that have statistics."""
        self.set_model(model)
        self.set_params(params)
        self._watched = [
            layer
            for layer in _with_statistics(model)
            if layer.statistics.choice_entropy.choices > 1
        ]
        for layer in self._watched:
            _warned[layer.statistics] = set()
        self._logs, self._losses = {}, {}

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        # A backup may have been restored.
        steps = self.model.optimizer.iterations
        self._is_new = not keras.ops.convert_to_numpy(steps)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if not self._is_new:
            return
        self._is_new = False
        self._deviations |= {
            name: x for name, x in (logs or {}).items() if DEVIATION in name
        }
        for layer in self._watched:
            found = _read(layer, logs or {})
            # Expected subsamples that start from 0 and 1 alone.
            is_expected = getattr(layer, "estimator", None) == "expectation"
            is_certain = found["certain"] > 0.98
            if is_expected and is_certain and found["kept"] < 0.9:
                verdict = (
                    "are certain from the first step on, before anything was "
                    "learned, so that they have no gradient"
                )
                remedies = [*self._other_start(layer), STRAIGHT_THROUGH]
                self._warn(layer, verdict, found, remedies)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.note(logs)
        epochs = (self.params or {}).get("epochs") or 1
        if epoch + 1 < self.begin * epochs or self._is_learning():
            return
        for layer in self._watched:
            found = _read(layer, self._logs)
            if _are_alike(layer, found, self.min_choice_entropy):
                verdict = (
                    f"{COLLAPSED}, and the loss does not fall: nearly all "
                    f"are alike after epoch {epoch + 1}"
                )
                self._warn(layer, verdict, found, self._remedies(layer, found))

    def note(self, logs: dict | None) -> None:
        """Notes the logs of an epoch, without a warning."""
        self._logs = logs or {}
        # The penalties of decisions fall with their weights.
        penalties = sum(
            self._logs.get(layer.statistics.penalty.name, 0)
            for layer in self._watched
        )
        for name, added in (("loss", penalties), ("val_loss", 0)):
            if name in self._logs:
                loss = self._logs[name] - added
                self._losses.setdefault(name, []).append(loss)

    def _is_learning(self) -> bool:
        """Returns whether the loss fell over the latter half of the epochs."""
        losses = self._losses.get("val_loss") or self._losses.get("loss")
        if not losses:
            return False
        before, now = losses[(len(losses) - 1) // 2], losses[-1]
        return now < before - 0.05 * abs(before)

    def on_train_end(self, logs: dict | None = None) -> None:
        for layer in self._watched:
            found = _read(layer, self._logs)
            read = next(iter(found.values()))
            inference = getattr(layer, "inference", "greedy")
            # Where all is closed for certain, nothing open is certain.
            is_undecided = found["certain"] < self.min_certain and read > 0.01
            if is_undecided and inference in LIKELIEST:
                verdict = (
                    f"{UNDECIDED}, so hard ones differ from what was trained"
                )
                remedies = [COMMIT]
                if inference == "threshold":
                    remedies.append(RUNNING_SUM)
                self._warn(layer, verdict, found, remedies)
            if _misses_target(layer, found):
                verdict = (
                    "miss their target at the end of training, "
                    f"target={layer.penalties.target:g}"
                )
                self._warn(layer, verdict, found, self._remedies(layer, found))

    def _other_start(self, layer: keras.Layer) -> list[str]:
        """A better start of a subsample, if it did not start well."""
        name = f"{layer.statistics.prefix}{DEVIATION}"
        scale, deviation = "`scale`", self._deviations.get(name)
        if deviation and 1 <= deviation <= 4:
            return []
        if deviation:
            scale = (
                f"{2 / deviation:.2g} times its `scale`, as the standard "
                f"deviation of the logits was {deviation:.2g} at first, and "
                "1 to 4 is good"
            )
        return [
            "start from probabilities that differ, near 0 and 1 but not there "
            f"(`share` of `EmissionProbabilities`, and {scale})"
        ]

    def _remedies(
        self, layer: keras.Layer, found: dict[str, float]
    ) -> list[str]:
        """Remedies that are not in force."""
        amount, read = next(iter(found.items()))
        of, weights = layer.statistics, layer.penalty_weights
        reading = float(keras.ops.convert_to_numpy(weights.reading))
        remedies: list[str] = []
        if amount == "kept":
            remedies += self._other_start(layer)
        if getattr(layer, "estimator", None) == "expectation":
            remedies.append(STRAIGHT_THROUGH)
        elif "entropy" in layer.decision_ramps:
            remedies.append(EXPLORE)
        if weights.is_targeted:
            weight = float(keras.ops.convert_to_numpy(weights.target_weight))
            return [*remedies, f"raise `target_weight`, now {weight:.4g}"]
        if read > of.middle:
            remedies.append(f"raise the weight of `reading`, now {reading:.4g}")
        elif reading:
            remedies.append(f"lower the weight of `reading`, now {reading:.4g}")
        return [*remedies, "set a `target` with a `target_weight`"]

    def _warn(
        self,
        layer: keras.Layer,
        verdict: str,
        found: dict[str, float],
        remedies: list[str],
    ) -> None:
        given, kind = _warned[layer.statistics], verdict.split(",")[0]
        is_told = kind == UNDECIDED and COLLAPSED in given
        if kind not in given and not is_told:
            given.add(kind)
            (amount, read), (_, entropy), (_, certain) = found.items()
            warnings.warn(
                f"The decisions of layer '{layer.statistics.prefix}' {verdict} "
                f"({amount}={read:.4g}, choice_entropy={entropy:.4g} nats, "
                f"certain={certain:.4g}). What helps: {'; '.join(remedies)}.",
                UserWarning,
                stacklevel=2,
            )


def _read(layer: keras.Layer, logs: dict) -> dict[str, float]:
    """A layer's metrics, by the ends of their names; NaN if of no decision.

    The first is how much is read.
    """
    of = layer.statistics
    prefix = f"{of.prefix}_"
    amount = of.amount.name.removeprefix(prefix)
    entropy = logs.get(of.entropy.name, 0)
    found = {
        name: float(logs.get(prefix + name, math.nan))
        for name in (amount, "choice_entropy", "certain")
    }
    # Sizes without entropy are certain, so none was counted.
    if of.is_size and entropy == found["certain"] == 0:
        return dict.fromkeys(found, math.nan)
    return found


def _with_statistics(model: keras.Model) -> list[keras.Layer]:
    """All layers with metrics of their decisions."""
    found = {
        id(layer.statistics): layer
        for layer in sublayers(model)
        if hasattr(layer, "penalty_weights")
        and isinstance(getattr(layer, "statistics", None), DecisionStatistics)
    }
    return list(found.values())


def _are_alike(
    layer: keras.Layer, found: dict[str, float], bound: float
) -> bool:
    """Returns whether decisions are nearly all alike, against a target."""
    read, entropy, certain = found.values()
    is_sparse = not layer.statistics.is_size and read < 0.5 < certain
    least = min(bound, _target_entropy(layer.penalties) / 2)
    return entropy < least and not is_sparse


def _misses_target(layer: keras.Layer, found: dict[str, float]) -> bool:
    """Returns whether what is read by decisions that are made is far off."""
    penalties = layer.penalties
    if not layer.penalty_weights.is_targeted:
        return False
    target, read = penalties.target, next(iter(found.values()))
    is_less = read < target / 2 and penalties.target_of != "row_above"
    # Where little is read, hardly any of it can be certain.
    is_made = found["certain"] > 0.5
    is_made |= is_less and not layer.statistics.is_size
    is_far = abs(read - target) > 0.05 and (is_less or read > 2 * target)
    return is_made and is_far


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
