"""Text classifiers with and without adaptive receptive fields."""

import argparse

import keras
import numpy as np
from keras import ops

from examples.common import arguments
from examples.common import presets
from examples.receptive_field import cells
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN


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
        x = ReceptiveFieldRNN(
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
        model = PolicyGradientModel(model)
    # The receptive field's loop is compiled on its own; XLA on the whole
    # model was measured slower here on CPU.
    model.compile(
        keras.optimizers.Adam(args.learning_rate, clipnorm=1.0),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,
    )
    return model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of every example that trains these models."""
    add = parser.add_argument
    add("--data-dir", type=arguments.folder, required=True, help="data sets")
    add("--embedding-size", type=int, default=100, help="without vectors")
    add("--length", type=int, help="tokens kept of a text")
    add("--units", type=int, default=100)
    add("--max-size", type=int, default=4, help="largest field size S")
    add("--dropout", type=float, default=0.5)
    add("--l2", type=float, default=1e-5)
    add("--learning-rate", type=float, default=1e-3)
    add("--batch-size", type=int, default=64)
    add("--epochs", type=int, default=30)
    presets.add_argument(parser, presets.CLASSIFIERS, "paper")
