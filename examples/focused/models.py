"""Models that answer a question about a sequence: LSTMs and the focused one.

All read a sequence `(B, T, d)`. Then the question, a context `(B, units)`,
attends over the states after every step, and what it reads is classified
together with it:

- `lstm1`, `lstm2`: one or two stacked `keras.layers.LSTM`; `_last`: without
  attention, the last state is classified; `_told`: the question is part of the
  input at every step;
- `fhe`: `FocusedHierarchicalEncoder`. Its `--preset` says how gates are
  trained, and whether the question attends over the upper states after all
  steps or over those at open gates, each once.
"""

import argparse
import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

import keras_seqmech as seqmech
from examples.common import presets
from examples.common.networks import network_of

MODELS = ("lstm1", "lstm2", "lstm1_last", "lstm2_last_told", "fhe")
ESTIMATORS = ("reinforce", "relaxed", "straight_through")
# Other forms of `inference`, and what names of their measures start with.
OTHERS = {"sample": "drawn", "running_sum": "summed"}
# Weight of exploration at the start.
ENTROPY_WEIGHT = 1.0


class Asked(NamedTuple):
    """What a model is asked.

    If `compare`, the product of what is read and the query is classified, too,
    and through a hidden layer: for questions whether something is so.
    """

    inputs: dict[str, keras.KerasTensor]  # By name.
    sequence: keras.KerasTensor  # `(B, T, d)`.
    context: keras.KerasTensor  # `(B, c)`.
    classes: int  # Number of answers.
    compare: bool = False


def build(
    name: str, estimator: str, asked: Asked, args: argparse.Namespace
) -> keras.Model:
    """A model of logits, one of `MODELS`, to be compiled and trained."""
    layers, own = keras.layers, presets.GATES[args.preset]
    query = layers.Dense(args.units, name="query")(asked.context)
    gates, read_out, attends = None, "every", "_last" not in name
    if name == "fhe":
        penalties = None
        if own.reading is None:
            penalties = seqmech.DecisionPenalties(
                target=args.openness_target,
                target_weight=args.sparsity_weight,
                target_of="row_above",
                entropy=ENTROPY_WEIGHT,
            )
        encoder = seqmech.FocusedHierarchicalEncoder(
            args.units,
            estimator=estimator,
            penalties=penalties,
            initial_openness=0.5,
            return_sequences=True,
            return_gates=True,
            track_statistics=True,
            jit_compile=args.jit_compile,
            name="encoder",
        )
        read, decisions = encoder(asked.sequence, asked.context)
        gates, read_out = decisions["gates"], own.read_out
    else:
        read = asked.sequence
        if name.endswith("_told"):
            # Whatever the length, the context beside each step.
            told = ops.expand_dims(asked.context, 1)
            told = told * ops.ones_like(read[:, :, :1])
            read = ops.concatenate([read, told], axis=-1)
        if name.startswith("lstm2"):
            lower = layers.LSTM(args.units, return_sequences=True, name="lower")
            read = lower(read)
        upper = layers.LSTM(args.units, return_sequences=attends, name="upper")
        read = upper(read)
    if attends:
        attention = seqmech.ContextAttention(
            read_out, return_attention_scores=True, name="attention"
        )
        read, _ = attention(read, query, gates)
    both = layers.Concatenate(name="read_and_question")([read, asked.context])
    if asked.compare:
        fit = layers.Multiply(name="fit")([read, query])
        both = layers.Concatenate(name="all")([both, fit])
        both = layers.Dense(args.units, "relu", name="compared")(both)
    logits = layers.Dense(asked.classes, name="logits")(both)
    network = keras.Model(asked.inputs, logits)
    if name == "fhe" and estimator == "reinforce":
        return seqmech.PolicyGradientModel(network, baseline="batch_mean")
    return network


def compile_model(model: keras.Model, learning_rate: float, steps: int) -> None:
    """Compiles a model for integer answers; the learning rate falls to 0."""
    model.compile(
        optimizer=keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(learning_rate, steps),
            global_clipnorm=1.0,
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )


def probe(model: keras.Model, focus: bool = False) -> keras.Model:
    """The same model with more outputs: gates, and focus `(B, T)` if wanted."""
    model = network_of(model)
    outputs = {"logits": model.output}
    if has_gates(model):
        outputs["gates"] = gates_of(model)
    if focus:
        read_out = model.get_layer("attention").output
        _, outputs["focus"] = keras.tree.flatten(read_out)
    return keras.Model(model.input, outputs)


def has_gates(model: keras.Model) -> bool:
    """Whether a model has an encoder with gates."""
    return "encoder" in {layer.name for layer in network_of(model).layers}


def gates_of(network: keras.Model) -> keras.KerasTensor:
    """The gates of a network's encoder, `(batch, time)`."""
    encoder = network.get_layer("encoder")
    names = ["gates", "probabilities"]
    if encoder.estimator == "reinforce":
        names.append("log_probability")
    # Keras keeps one list: the states, then the dict's values by sorted name.
    _, *values = encoder.output
    return dict(zip(sorted(names), values, strict=True))["gates"]


def measure(
    probed: keras.Model,
    asked: dict,
    answers: np.ndarray,
    batch_size: int,
    parts: dict[str, np.ndarray] | None = None,
) -> dict[str, float]:
    """Accuracy, and openness if there are gates, on some examples.

    `parts` are bools by name: examples whose accuracy is wanted on its own.
    """
    found = probed.predict(asked, batch_size=batch_size, verbose=0)
    right = found["logits"].argmax(axis=-1) == answers
    measured = {"accuracy": float(right.mean())}
    for name, part in (parts or {}).items():
        measured[f"{name}_accuracy"] = float(right[part].mean())
    if "gates" in found:
        measured["openness"] = float(found["gates"].mean())
    return measured


@contextlib.contextmanager
def inferring(model: keras.Model, inference: str) -> Iterator[None]:
    """Within it, gates are decided by another `inference` of the encoder.

    For a new `probe`, as one that was traced before stays as it was traced.
    """
    gate = network_of(model).get_layer("encoder").gate
    own, gate.inference = gate.inference, inference
    try:
        yield
    finally:
        gate.inference = own


def measure_others(
    model: keras.Model, measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """What `measure` returns under each of `OTHERS`; empty without gates."""
    found = {}
    for inference, prefix in OTHERS.items() if has_gates(model) else ():
        with inferring(model, inference):
            own = measure()
        found |= {f"{prefix}_{name}": value for name, value in own.items()}
    return found
