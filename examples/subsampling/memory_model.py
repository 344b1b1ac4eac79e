"""The model of the memory task: an LSTM whose states are subsampled."""

import keras
import numpy as np
from keras import ops

from keras_seqmech import ExpectedSubsample
from keras_seqmech.ops.emission import expectation
from keras_seqmech.tasks import memory


def build(length: int, units: int, emission_bias: float = 0.0) -> keras.Model:
    """A model of logits `(B, U, 3)` for symbols `(B, T)`.

    Whether the state of a step is emitted is decided by the state and the
    symbol before it, equation 3; before the first step both are zeros.

    Args:
        length: Number of symbols T; outputs are U = `most_outputs(T)`.
        units: Size of the LSTM's state.
        emission_bias: Bias of the emission's logit, before training.
    """
    layers = keras.layers
    symbols = keras.Input((length,), dtype="int32", name="symbols")
    seen = ops.one_hot(symbols, memory.SYMBOLS)
    states = layers.LSTM(units, return_sequences=True, name="states")(seen)
    both = layers.Concatenate(name="state_and_symbol")([states, seen])
    before = layers.ZeroPadding1D((1, 0), name="a_step_later")(both)
    probabilities = layers.Dense(
        1,
        activation="sigmoid",
        bias_initializer=keras.initializers.Constant(emission_bias),
        name="emission",
    )(before[:, :-1])
    probabilities = layers.Reshape((length,), name="emissions")(probabilities)
    outputs = ExpectedSubsample(memory.most_outputs(length), name="subsample")(
        states, probabilities
    )
    logits = layers.Dense(memory.SYMBOLS, name="logits")(outputs)
    return keras.Model(symbols, logits)


def compile_model(
    model: keras.Model, learning_rate: float, jit_compile: bool = False
) -> None:
    """Compiles a model; losses are means over the outputs that count."""
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate, epsilon=1e-8),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        weighted_metrics=["accuracy"],
        jit_compile=jit_compile,
    )


def probe(model: keras.Model) -> keras.Model:
    """The same model with the emission probabilities as a second output."""
    emissions = model.get_layer("emissions").output
    return keras.Model(
        model.input, {"logits": model.output, "emissions": emissions}
    )


def measure(
    probed: keras.Model, test: memory.Examples, batch_size: int
) -> dict[str, float]:
    """Scores of a model on some examples.

    Args:
        probed: A `probe`.
        test: `memory.examples`.
        batch_size: Of prediction.

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


def emission_matrix(probed: keras.Model, symbols: np.ndarray) -> np.ndarray:
    """$p(y_m = s_n)$ for one sequence, `(U, T)`."""
    found = probed.predict(symbols[None], verbose=0)["emissions"]
    width = memory.most_outputs(len(symbols))
    return expectation.emission_matrix(found, width)[0].numpy()
