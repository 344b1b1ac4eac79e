"""A callback that warns when gates no longer depend on the input."""

import warnings

import keras

from keras_seqmech.layers import validation


class WarnOnGateCollapse(keras.callbacks.Callback):
    """Warns when gates are all open or all closed.

    Gates that are drawn are known to collapse: once all probabilities are near
    0 or 1, draws no longer differ, and nothing tells the gates what another
    choice would have done. So they stay, however long one trains.
    What helps is an argument of `BoundaryGate` and of
    `FocusedHierarchicalEncoder`:

    - `entropy_weight` rewards undecided gates: it holds probabilities off 0
      and 1 until the loss speaks clearly for either. Too large, gates remain
      noise.
    - `openness_target` is the share of gates that may be open for free, and
      `sparsity_weight` the price of each one above. A price far above what a
      gate is worth to the loss closes all of them; none at all lets them stay
      open, as more to read seldom hurts. At the target itself the price ends:
      it does not ask for less.
    - `initial_openness` is the probability of being open at the start. Near
      1 the network learns to read everything first and closes gates late or
      never; near 0 it reads nothing and learns nothing from what it skips.

    The baseline of a `PolicyGradientModel` helps in the same way: less noise
    in the gradient, fewer gates driven to an end by chance.

    Reads the training metrics `<name>_openness`, which layers with
    `track_statistics=True` add to the logs. Not at those of validation:
    there gates above one half are open, so that they may well be all open
    while training still draws both.

    Args:
        low: Share of open gates, from 0 to 1, below which gates count as all
            closed.
        high: Share above which they count as all open.
        patience: Positive int, the epochs in a row before it warns; then
            silent until they have recovered.

    Raises:
        ValueError: If an argument is not allowed; after the first epoch, if
            there is no such metric.

    Example:

    >>> callback = WarnOnGateCollapse(patience=2)
    >>> callback.on_train_begin()
    >>> callback.on_epoch_end(0, {"loss": 1.0, "encoder_openness": 0.4})

    Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
    on training with entropy regularization and sparsity constraints.
    """

    def __init__(
        self, low: float = 0.01, high: float = 0.99, patience: int = 1
    ):
        super().__init__()
        self.low = validation.check_share("low", low)
        self.high = validation.check_share("high", high)
        if low >= high:
            raise ValueError(
                "Argument `low` must be below `high`. "
                f"Received: low={low!r}, high={high!r}"
            )
        self.patience = validation.check_positive_int("patience", patience)
        self._streaks: dict[str, tuple[str | None, int]] = {}

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._streaks = {}

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        shares = {
            name: value
            for name, value in (logs or {}).items()
            if name.endswith("_openness") and not name.startswith("val_")
        }
        if not shares:
            raise ValueError(
                "`WarnOnGateCollapse` needs a metric `<name>_openness`: build "
                "the layer with `track_statistics=True`. "
                f"Received: logs with {sorted(logs or {})}"
            )
        for name, share in shares.items():
            self._follow(name, float(share))

    def _follow(self, name: str, share: float) -> None:
        side = None
        if share < self.low:
            side = "closed"
        elif share > self.high:
            side = "open"
        before, epochs = self._streaks.get(name, (None, 0))
        epochs = epochs + 1 if side == before else 1
        self._streaks[name] = side, epochs
        if side is None or epochs != self.patience:
            return
        remedy = {
            "closed": "raise `openness_target` or lower `sparsity_weight`, "
            "start with a larger `initial_openness`",
            "open": "set or lower `openness_target` with a larger "
            "`sparsity_weight`, start with a smaller `initial_openness`",
        }[side]
        warnings.warn(
            f"Gates have collapsed: nearly all are {side} ({name}={share:.4g} "
            f"after {epochs} epoch(s) in a row). They will hardly recover by "
            f"themselves: raise `entropy_weight`, {remedy}, or lower the "
            "learning rate.",
            UserWarning,
            stacklevel=2,
        )
