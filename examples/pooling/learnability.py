"""Four ways to teach an LSTM without changing it, and two to compare.

    python -m examples.pooling.learnability --data-dir DATA --sizes 10000

Reproduces table 2.1 of "Analyzing the Learnability and Representability of
Recurrent Architectures": a one-directional LSTM whose last state is the
embedding of a text, trained plainly (lstm), with the embeddings of a
max-pooled LSTM as targets (teacher_forcing), with attention that is taken away
by a penalty or by dropout (penalty, dropout), and with a loss that asks the
gradient to reach all words (gradient_directed). `maxpool` is the
max-pooled LSTM.

However a model was trained, the plain LSTM with its weights is validated and
tested; only `maxpool` pools. Texts, settings, seeds and the file of runs are as
in `examples/pooling/compare.py`.
"""

import argparse
import functools
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

import keras_seqmech
from examples.common import results
from examples.common import word_vectors
from examples.common.arguments import real
from examples.common.epoch_line import EpochLine
from examples.common.networks import network_of
from examples.pooling import classifiers
from examples.pooling import experiments
from examples.pooling import noisy_texts
from examples.pooling import thesis
from keras_seqmech import training

KEY = experiments.KEY
FIELDS = (*KEY, *experiments.RESULTS, *experiments.COSTS)


class Runs:
    """Trains and tests models; keeps a teacher while its texts are in use."""

    def __init__(self):
        self.data = None
        self.teacher = None

    def __call__(
        self,
        name: str,
        seed: int,
        data: noisy_texts.StudyData,
        args: argparse.Namespace,
        line: str,
        curve: Path | None = None,
    ) -> tuple[dict, keras.Model]:
        """One run, to be called by `experiments.do_runs`; writes no curve."""
        if self.data is not data:
            self.data, self.teacher = data, None
        if name == "teacher_forcing" and self.teacher is None:
            self("maxpool", seed, data, args, f"{line}, teacher:")
        keras.utils.clear_session()
        keras.utils.set_random_seed(seed)
        matrix = word_vectors.embedding_matrix(
            data.words, args.vectors, args.embedding_size, seed
        )
        shared = Shared(matrix, len(data.classes), args.units)
        model = build(name, shared, args, self.teacher)
        start = time.perf_counter()
        history = classifiers.fit(
            model,
            data,
            seed,
            args.epochs,
            args.batch_size,
            args.patience,
            [*curricula(name, args), EpochLine(line)],
        )
        if name != "maxpool":
            model = plain(model, shared)
        row = {
            **experiments.summary(history),
            "test_accuracy": experiments.percent(
                classifiers.accuracy(model, data.test)
            ),
            "parameters": model.count_params(),
            "seconds": round(time.perf_counter() - start, 1),
        }
        if name == "maxpool":
            self.teacher = model.get_weights()
        return row, model


class Shared(NamedTuple):
    """What the models of a run have in common.

    Attributes:
        matrix: Starting values of embeddings.
        classes: Number of classes.
        units: Of the LSTM.
    """

    matrix: np.ndarray
    classes: int
    units: int


def graph(pooling: Callable, shared: Shared) -> classifiers.Graph:
    """A classifier with a one-directional LSTM.

    Its layers draw seeds in this order: the LSTM's weights are those of a
    seed, whatever the pooling layer, which `pooling(name=...)` makes, draws.
    """
    # cuDNN has no second derivatives; on CPU it makes no difference.
    rnn = keras.layers.LSTM(
        shared.units, return_sequences=True, use_cudnn=False, name="rnn"
    )
    return classifiers.connect(
        rnn, pooling(name="pooling"), shared.matrix, shared.classes
    )


def build(
    name: str,
    shared: Shared,
    args: argparse.Namespace,
    teacher: list[np.ndarray] | None = None,
) -> keras.Model:
    """Builds and compiles what one of `thesis.METHODS` trains.

    Args:
        name: The method.
        shared: What it has in common with the others.
        args: Of the command line.
        teacher: Weights of a trained `maxpool`, for `teacher_forcing`.
    """
    pooling = keras_seqmech.LastPooling
    if name == "maxpool":
        pooling = keras_seqmech.MaxPooling
    elif name in ("penalty", "dropout"):
        pooling = functools.partial(
            keras_seqmech.LastAttentionPooling, attention_at_inference=False
        )
    tensors = graph(pooling, shared)
    if name == "teacher_forcing":
        taught = graph(keras_seqmech.MaxPooling, shared)
        whole = keras.Model(taught.tokens, taught.outputs)
        whole.set_weights(teacher)
        model = training.DistillationModel(
            keras.Model(tensors.tokens, tensors.sentence),
            keras.Model(taught.tokens, taught.sentence),
            whole.get_layer("classifier"),
        )
        # Its loss is the distance to the teacher.
        classifiers.compile_classifier(model, args.learning_rate, loss=None)
        return model
    if name == "gradient_directed":
        model = training.GradientDirectedModel(
            keras.Model(tensors.tokens, tensors.outputs),
            layer="embedding",
            gradient_weight=args.gradient_weight,
            mask=tensors.mask,
        )
    else:
        model = keras.Model(tensors.tokens, tensors.outputs)
    classifiers.compile_classifier(model, args.learning_rate)
    return model


def curricula(
    name: str, args: argparse.Namespace
) -> list[keras.callbacks.Callback]:
    """What changes from epoch to epoch, in the first half of them."""
    half = max(1, args.epochs // 2)
    if name == "penalty":
        return [training.Curriculum("penalty", half, eta=4)]
    if name == "dropout":
        return [training.Curriculum("attention_dropout", half, eta=2)]
    if name == "gradient_directed":
        weight = args.gradient_weight
        return [
            training.Curriculum(
                "gradient_weight", half, initial=weight, final=0.0
            )
        ]
    return []


def plain(model: keras.Model, shared: Shared) -> keras.Model:
    """The LSTM of a trained model, with its last state and nothing else."""
    tensors = graph(keras_seqmech.LastPooling, shared)
    lstm = keras.Model(tensors.tokens, tensors.outputs, name="lstm")
    front = getattr(model, "student", network_of(model))
    layers = {
        "embedding": front.get_layer("embedding"),
        "rnn": front.get_layer("rnn"),
        "classifier": getattr(model, "classifier", None)
        or front.get_layer("classifier"),
    }
    for name, layer in layers.items():
        lstm.get_layer(name).set_weights(layer.get_weights())
    return lstm


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    experiments.add_arguments(parser)
    add(
        "--methods",
        nargs="+",
        choices=thesis.METHODS,
        default=list(thesis.METHODS),
    )
    add(
        "--gradient-weight",
        type=real("[0, inf)"),
        default=1.0,
        help="at the start",
    )
    add("--output", default="runs/pooling_learnability.csv")
    parser.set_defaults(sizes=[thesis.LEARNABILITY_SIZE], seeds=[0, 1])
    args = parser.parse_args(argv)
    args.vectors = args.vectors or word_vectors.find_vectors(args.data_dir)
    return args


def settings_of(args: argparse.Namespace) -> str:
    """What a result depends on besides the other columns of `KEY`."""
    names = (*experiments.TUNED, "gradient_weight")
    return experiments.describe_settings(args, names)


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run that the command line asks for."""
    return experiments.keys(args, args.methods, settings_of(args))


def main(argv: Sequence[str] | None = None) -> str:
    """Runs the study; returns the table it prints."""
    args = parse(argv)
    rows = experiments.do_runs(args, keys(args), FIELDS, Runs())

    def paper(*column_and_name):
        return thesis.learnability_accuracy(args.dataset, *column_and_name)

    content = experiments.table(rows, thesis.METHODS, paper)
    return experiments.report(
        args, settings_of(args), rows, content, "table 2.1"
    )


if __name__ == "__main__":
    main()
