"""Three ways to teach an LSTM without changing it, and two to compare.

    python -m examples.pooling.learnability --data-dir DATA --sizes 10000

Table 2.1 of "Analyzing the Learnability and Representability of Recurrent
Architectures": a one-directional LSTM whose last state is the embedding of a
text, trained plainly (lstm), with attention that is taken away by a penalty or
by dropout (penalty, dropout), and with a loss that asks the gradient to reach
all words (gradient_directed). `maxpool` is the max-pooled LSTM.

However a model was trained, the plain LSTM with its weights is validated and
tested; only `maxpool` pools. Texts, settings, seeds and the file of runs are as
in `examples/pooling/compare.py`.
"""

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

import keras_seqmech
from examples.common.networks import network_of
from examples.pooling import classifiers
from examples.pooling import experiments
from examples.pooling import noisy_texts
from examples.pooling import teaching
from keras_seqmech import training

METHODS = ("lstm", "maxpool", "penalty", "dropout", "gradient_directed")
# Weight of the directed gradient's loss at the start.
GRADIENT_WEIGHT = 1.0


def train_and_test(
    name: str,
    seed: int,
    data: noisy_texts.StudyData,
    args: argparse.Namespace,
    curve: Path,
) -> tuple[dict, keras.Model]:
    """One run, to be called by `experiments.study`; writes no curve."""
    matrix = experiments.start(seed, data, args)
    model = build(name, matrix, args)
    history = experiments.fit(model, seed, data, args, curricula(name))
    if name != "maxpool":
        model = plain(model, matrix, args.units)
    return {
        **experiments.summary(history),
        "test_accuracy": experiments.accuracy(model, data.test),
    }, model


def connect(pooling: Callable, matrix: np.ndarray, units: int) -> keras.Model:
    """A classifier with a one-directional LSTM.

    Its layers draw seeds in this order: the LSTM's weights are those of a seed.
    """
    # cuDNN has no second derivatives; on CPU it makes no difference.
    rnn = keras.layers.LSTM(
        units, return_sequences=True, use_cudnn=False, name="rnn"
    )
    return classifiers.connect(rnn, pooling(name="pooling"), matrix)


def build(
    name: str, matrix: np.ndarray, args: argparse.Namespace
) -> keras.Model:
    """Builds and compiles what one of `METHODS` trains."""
    pooling = keras_seqmech.LastPooling
    if name == "maxpool":
        pooling = keras_seqmech.MaxPooling
    elif name in ("penalty", "dropout"):
        pooling = functools.partial(
            keras_seqmech.LastAttentionPooling, attention_at_inference=False
        )
    model = connect(pooling, matrix, args.units)
    if name == "gradient_directed":
        model = teaching.GradientDirectedModel(model, GRADIENT_WEIGHT)
    classifiers.compile_classifier(model, args.learning_rate)
    return model


def curricula(name: str) -> list[keras.callbacks.Callback]:
    """What changes in the first half of training."""
    numbers = {
        "penalty": {"penalty": lambda share: min(1, 2 * share) ** 4},
        "dropout": {"attention_dropout": lambda share: min(1, 2 * share) ** 2},
        "gradient_directed": {
            "gradient_weight": (GRADIENT_WEIGHT, 0.0, 0.0, 0.5)
        },
    }
    return [training.Schedule(numbers[name])] if name in numbers else []


def plain(model: keras.Model, matrix: np.ndarray, units: int) -> keras.Model:
    """The LSTM of a trained model, with its last state and nothing else."""
    lstm = connect(keras_seqmech.LastPooling, matrix, units)
    for name in ("embedding", "rnn", "classifier"):
        weights = network_of(model).get_layer(name).get_weights()
        lstm.get_layer(name).set_weights(weights)
    return lstm


def options(parser: argparse.ArgumentParser) -> None:
    experiments.options(parser)
    names = list(METHODS)
    parser.add_argument(
        "--methods", dest="models", nargs="+", choices=names, default=names
    )
    parser.set_defaults(sizes=[10000], forget_bias=1.0)


PROGRAM = experiments.study(
    train_and_test,
    doc=__doc__,
    output="runs/pooling_learnability.csv",
    options=options,
    seeds=(0, 1),
)

if __name__ == "__main__":
    PROGRAM.main()
