"""Text classification with and without adaptive receptive fields.

    python -m examples.receptive_field.classify_text \
        --dataset mr --data-dir DATA

Table 1 of "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks": test accuracies, with how much fields read, how much their sizes
depend on the word, and the share of sizes that are certain. The validation part
stops the training and picks the epoch, of all models alike: with a `--preset`
that explores, among those after the exploration and the penalty's rise.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

import keras_seqmech as seqmech
from examples.common import datasets
from examples.common import presets
from examples.common import program
from examples.common import text_encoding
from examples.common import word_vectors
from examples.receptive_field import cells
from examples.receptive_field import field_report

# Of words without vectors.
EMBEDDING_SIZE = 100
NUMBERS = {
    "units": 100,
    "dropout": 0.5,
    "l2": 1e-5,
    "learning_rate": 1e-3,
    "batch_size": 64,
    "max_size": 4,  # Largest field size S.
    "length": int,  # Tokens kept of a text.
    "epochs": 30,
}


def build_model(
    name: str,
    matrix: np.ndarray,
    length: int,
    classes: int,
    args: argparse.Namespace,
) -> keras.Model:
    """Builds one of `cells.MODELS`: word ids to probabilities.

    The layer of a model with receptive fields is called `"field"`.
    """
    ids = keras.Input((length,), dtype="int64", name="ids")
    mask = ops.not_equal(ids, 0)
    embedding = keras.layers.Embedding(*matrix.shape)
    x = keras.layers.Dropout(args.dropout)(embedding(ids))
    embedding.embeddings.assign(matrix)
    penalty = keras.regularizers.L2(args.l2)
    cell, _, _ = name.partition("+")
    if cells.has_field(name):
        x = seqmech.ReceptiveFieldRNN(
            cells.CELLS[cell](args.units, kernel_regularizer=penalty),
            **cells.field_arguments(name, args.max_size),
            **presets.CLASSIFIERS[args.preset].arguments,
            kernel_regularizer=penalty,
            jit_compile=True,
            name="field",
        )(x, mask=mask)
    else:
        layer = cells.LAYERS[cell](args.units, kernel_regularizer=penalty)
        x = layer(cells.read(name, args.units, x), mask=mask)
    x = keras.layers.Dropout(args.dropout)(x)
    outputs = keras.layers.Dense(
        classes, activation="softmax", kernel_regularizer=penalty
    )(x)
    return keras.Model(ids, outputs, name="classifier")


def trainable(
    name: str, model: keras.Model, args: argparse.Namespace
) -> keras.Model:
    """The model to fit: a classifier, or a policy gradient on it; compiled."""
    if cells.draws(name):
        model = seqmech.PolicyGradientModel(model)
    # The receptive field's loop is compiled on its own; XLA on the whole
    # model was measured slower here on CPU.
    model.compile(
        keras.optimizers.Adam(args.learning_rate, clipnorm=1.0),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,
    )
    return model


def train_and_test(run: program.Run) -> dict[str, Any]:
    """Trains and tests one model."""
    name, data, args = run.key["model"], run.data, run.args
    matrix = word_vectors.embedding_matrix(
        data.words, args.vectors, EMBEDDING_SIZE, run.seed
    )
    model = build_model(
        name, matrix, data.train[0].shape[1], len(data.classes), args
    )
    trained = trainable(name, model, args)
    schedule = presets.schedule(presets.CLASSIFIERS[args.preset].reading)
    first = settled_epoch(schedule, args.epochs)
    stopping = keras.callbacks.EarlyStopping(
        "val_accuracy",
        patience=args.patience,
        restore_best_weights=True,
        start_from_epoch=first,
    )
    callbacks: list[keras.callbacks.Callback] = [stopping]
    if schedule is not None and cells.has_field(name):
        callbacks.append(schedule)
    history = trained.fit(
        *data.train,
        validation_data=data.validation,
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=0,
        callbacks=callbacks,
    ).history
    _, accuracy = trained.evaluate(*data.test, batch_size=256, verbose=0)
    best = first + int(np.argmax(history["val_accuracy"][first:]))
    row = {
        "test_accuracy": round(100 * accuracy, 2),
        "validation_accuracy": round(100 * history["val_accuracy"][best], 2),
        "best_epoch": best + 1,
        "epochs": len(history["loss"]),
        "parameters": model.count_params(),
    }
    if cells.has_field(name):
        ids, _ = data.test
        found = seqmech.analysis.decisions(model, ids, 256)["field"]
        report = field_report.report(found["size"], found["probabilities"], ids)
        row |= {"mean_field_size": round(report.mean_size, 3), **report.row()}
    return row


def settled_epoch(
    schedule: seqmech.ExploreThenCommit | None, epochs: int
) -> int:
    """The first epoch, from 0, of sizes whose penalties stay as they are."""
    if schedule is None:
        return 0
    ends = (schedule.numbers[x].end for x in ("entropy", "reading"))
    return min(epochs - 1, math.ceil(max(ends) * epochs))


def vectors_of(args: argparse.Namespace, case: program.Case) -> program.Case:
    """The file of word vectors, on which a result depends, too."""
    return {"vectors": Path(args.vectors).name if args.vectors else "none"}


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    models = list(cells.MODELS)
    add("--dataset", choices=list(datasets.CLASSES), required=True)
    add("--models", nargs="+", choices=models, default=models)
    presets.add_argument(parser, presets.CLASSIFIERS, "paper")


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    args.length = args.length or text_encoding.LENGTHS[args.dataset]
    args.vectors = word_vectors.find_vectors(args.data_dir)


def load(args: argparse.Namespace) -> text_encoding.Encoded:
    data = datasets.load(args.dataset, args.data_dir, args.fold)
    return text_encoding.encode(data, args.length)


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/classify_text.csv",
    options=options,
    check=check,
    seeds=(1, 2, 3),
    key=("dataset", "preset", "model", "seed", "settings"),
    cases=lambda args: program.grid(
        dataset=[args.dataset], preset=[args.preset], model=args.models
    ),
    needs_data=lambda args: True,
    # Epochs without progress; the fold to test, of mr's ten.
    numbers={**NUMBERS, "patience": 5, "fold": 0},
    more=vectors_of,
    load=load,
    run=train_and_test,
)

if __name__ == "__main__":
    PROGRAM.main()
