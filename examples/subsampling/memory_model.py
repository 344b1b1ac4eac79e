"""The model of the memory task: an LSTM whose states are subsampled."""

import keras
import numpy as np
from keras import ops

from keras_seqmech import ExpectedSubsample
from keras_seqmech.subsample import expectation
from keras_seqmech.tasks import memory

EMIT = ("before", "after")


def build(
    length: int,
    units: int,
    emission_bias: float = 0.0,
    emit: str = "before",
    is_fixed: bool = True,
    learning_rate: float = 1e-3,
    clip_norm: float | None = None,
) -> keras.Model:
    """A compiled model of logits `(B, U, 3)` for symbols `(B, T)`.

    Its loss is the mean over the outputs that count.

    Args:
        length: Number of symbols T; outputs are U = `most_outputs(T)`.
        units: Size of the LSTM's state.
        emission_bias: Bias of the emission's logit, before training.
        emit: When it is decided whether a step's state is emitted: "before"
            its symbol was seen, by the state and the symbol of the step
            before, equation 3, zeros before the first step; or "after" it, by
            the step's own.
        is_fixed: Whether sequences always have T symbols, and not at most T.
        learning_rate: Learning rate of Adam.
        clip_norm: Largest norm of each weight's gradient; None for any.
    """
    layers = keras.layers
    steps = length if is_fixed else None
    symbols = keras.Input((steps,), dtype="int32", name="symbols")
    seen = ops.one_hot(symbols, memory.SYMBOLS)
    states = layers.LSTM(units, return_sequences=True, name="states")(seen)
    both = layers.Concatenate(name="state_and_symbol")([states, seen])
    if emit == "before":
        both = layers.ZeroPadding1D((1, 0), name="a_step_later")(both)[:, :-1]
    probabilities = layers.Dense(
        1,
        activation="sigmoid",
        bias_initializer=keras.initializers.Constant(emission_bias),
        name="emission",
    )(both)
    probabilities = layers.Reshape(
        (length if is_fixed else -1,), name="emissions"
    )(probabilities)
    outputs = ExpectedSubsample(memory.most_outputs(length), name="subsample")(
        states, probabilities
    )
    logits = layers.Dense(memory.SYMBOLS, name="logits")(outputs)
    model = keras.Model(symbols, logits)
    model.compile(
        optimizer=keras.optimizers.Adam(
            learning_rate, epsilon=1e-8, clipnorm=clip_norm
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        weighted_metrics=["accuracy"],
    )
    return model


def probe(model: keras.Model) -> keras.Model:
    """The same model with the emission probabilities as a second output."""
    emissions = model.get_layer("emissions").output
    return keras.Model(
        model.input, {"logits": model.output, "emissions": emissions}
    )


def measure(
    probed: keras.Model, test: memory.Examples, batch_size: int
) -> dict[str, float]:
    """Scores of a `probe` on some examples.

    Returns:
        `accuracy`, the share of outputs that are right, `sequence_accuracy`,
        the share of sequences of which all are, and `emitted`, the expected
        number of emissions over the number of outputs.
    """
    symbols, targets, mask = test
    found = probed.predict(symbols, batch_size=batch_size, verbose=0)
    right = found["logits"].argmax(axis=-1) == targets
    return {
        "accuracy": float(right[mask].mean()),
        "sequence_accuracy": float((right | ~mask).all(axis=1).mean()),
        "emitted": float(found["emissions"].sum() / mask.sum()),
    }


def padded_accuracy(
    model: keras.Model, test: memory.Examples, batch_size: int
) -> float:
    """The share of T outputs that are right, zeros after the last real one.

    Equation 4 has as many outputs as there are symbols. Where nothing is
    emitted the model's answer is that for the zero vector.
    """
    symbols, targets, _ = test
    states, emissions = (
        model.get_layer(name).output for name in ("states", "emissions")
    )
    outputs = ExpectedSubsample(symbols.shape[1])(states, emissions)
    logits = model.get_layer("logits")(outputs)
    found = keras.Model(model.input, logits).predict(
        symbols, batch_size=batch_size, verbose=0
    )
    padded = np.zeros_like(symbols)
    padded[:, : targets.shape[1]] = targets
    return float((found.argmax(axis=-1) == padded).mean())


def emission_matrix(probed: keras.Model, symbols: np.ndarray) -> np.ndarray:
    """$p(y_m = s_n)$ for one sequence, `(U, T)`."""
    found = probed.predict(symbols[None], verbose=0)["emissions"]
    width = memory.most_outputs(len(symbols))
    return expectation.emission_matrix(found, width)[0].numpy()
