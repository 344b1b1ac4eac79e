"""Taggers for Chinese word segmentation: batches, models, training, use."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import keras_seqmech as seqmech
from examples.receptive_field import cells
from examples.receptive_field import field_report
from examples.receptive_field import segmentation

FIRST_CHARACTER = 2  # 0 is padding, 1 stands for unknown characters.
BATCH = 256  # Of prediction.


def encode(texts: Sequence[str], vocabulary: Sequence[str]) -> list[np.ndarray]:
    """The ids of each text's characters, 1 where a character is unknown."""
    ids = {c: number for number, c in enumerate(vocabulary, FIRST_CHARACTER)}
    return [np.array([ids.get(c, 1) for c in text], "int32") for text in texts]


def training_batches(
    sentences: Sequence[segmentation.Words],
    vocabulary: Sequence[str],
    batch_size: int,
    lengths: Sequence[int] = (32, 64),
    seed: int | None = None,
) -> tuple[tf.data.Dataset, int]:
    """Endless shuffled batches for `fit`, and how many make an epoch.

    They are `(ids, tags, weights)`, each `(batch_size, length)`. Pieces wait in
    a bucket for others of about their length and are padded on the right to the
    bucket's. Weights are 0 at padding.
    """
    pieces, tags = [], []
    for words in sentences:
        text, letters = segmentation.tag_words(words)
        pieces += segmentation.split_text(text, lengths[-1])
        tags += [segmentation.TAGS.index(tag) for tag in letters]
    ids = np.concatenate(encode(pieces, vocabulary))
    sizes = [len(piece) for piece in pieces]
    dataset = tf.data.Dataset.from_tensor_slices(
        tuple(
            tf.RaggedTensor.from_row_lengths(values, sizes)
            for values in (ids, np.array(tags, "int32"))
        )
    )
    dataset = (
        dataset.shuffle(len(pieces), seed=seed)
        .repeat()
        .map(lambda ids, tags: (ids, tags, tf.ones_like(ids, "float32")))
        .bucket_by_sequence_length(
            lambda ids, tags, weights: tf.shape(ids)[0],
            bucket_boundaries=[length + 1 for length in lengths],
            bucket_batch_sizes=[batch_size] * (len(lengths) + 1),
            pad_to_bucket_boundary=True,
        )
        .prefetch(2)
    )
    return dataset, -(-len(pieces) // batch_size)


def build_model(
    kind: str,
    vocabulary_size: int,
    units: int = 128,
    embedding_units: int = 64,
    max_size: int = 4,
    summary: str = "last",
    bidirectional: bool = False,
    seed: int | None = None,
    jit_compile: bool = True,
    **field: Any,
) -> keras.Model:
    """A tagger: ids `(batch, time)` in, probabilities of the tags out.

    One of `cells.MODELS`, with a second recurrent layer that reads from the end
    if it is `bidirectional`. `field` are more arguments of
    `ReceptiveFieldRNN`.
    """
    ids = keras.Input((None,), dtype="int32", name="ids")
    mask = ops.not_equal(ids, 0)
    x = keras.layers.Embedding(
        vocabulary_size + FIRST_CHARACTER, embedding_units
    )(ids)
    x = keras.layers.Dropout(0.2)(x)
    cell, _, _ = kind.partition("+")
    read = []
    for backwards in (False, True)[: 1 + bidirectional]:
        options = {"return_sequences": True, "go_backwards": backwards}
        if cells.has_field(kind):
            y = seqmech.ReceptiveFieldRNN(
                cells.CELLS[cell](units),
                **cells.field_arguments(kind, max_size),
                summary=summary,
                seed=seed,
                track_statistics=True,
                jit_compile=jit_compile,
                name="field_backwards" if backwards else "field",
                **options,
                **field,
            )(x, mask=mask)
        else:
            layer = cells.LAYERS[cell](units, **options)
            y = layer(cells.read(kind, units, x), mask=mask)
        read.append(ops.flip(y, axis=1) if backwards else y)
    x = keras.layers.Dropout(0.2)(ops.concatenate(read, axis=-1))
    return keras.Model(
        ids, keras.layers.Dense(len(segmentation.TAGS), "softmax")(x)
    )


def fields_of(model: keras.Model) -> list[seqmech.ReceptiveFieldRNN]:
    """The layers of a tagger that have receptive fields."""
    return [x for x in model.layers if isinstance(x, seqmech.ReceptiveFieldRNN)]


def trainable(model: keras.Model, learning_rate: Any = 3e-3) -> keras.Model:
    """The tagger, compiled; with a policy gradient if its fields draw."""
    if any(
        x.get_config()["estimator"] == "reinforce" for x in fields_of(model)
    ):
        model = seqmech.PolicyGradientModel(model)
    model.compile(
        keras.optimizers.Adam(learning_rate, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(
            reduction="mean_with_sample_weight"
        ),
        weighted_metrics=["accuracy"],
        # The receptive field's loop is compiled on its own; XLA on the whole
        # model was measured slower here on CPU.
        jit_compile=False,
    )
    return model


def train(
    model: keras.Model,
    sentences: Sequence[segmentation.Words],
    vocabulary: Sequence[str],
    epochs: int,
    batch_size: int,
    seed: int,
    callbacks: Sequence[keras.callbacks.Callback],
) -> None:
    """Fits a tagger with Adam, the learning rate falling along a cosine."""
    batches, steps = training_batches(
        sentences, vocabulary, batch_size, seed=seed
    )
    rate = keras.optimizers.schedules.CosineDecay(3e-3, steps * epochs)
    trainable(model, rate).fit(
        batches,
        epochs=epochs,
        steps_per_epoch=steps,
        shuffle=False,
        callbacks=callbacks,
        verbose=2,
    )


def segment(
    model: keras.Model,
    texts: Sequence[str],
    vocabulary: Sequence[str],
    max_length: int = 64,
) -> list[segmentation.Words]:
    """The words of each text, read in pieces of at most `max_length`."""
    ids = _ids_of_pieces(texts, vocabulary, max_length)
    found = model.predict(ids, batch_size=BATCH, verbose=0)
    letters = np.array(segmentation.TAGS)[np.argmax(found, axis=-1)]
    # The tags of all texts, one after the other.
    tags = iter(letters[ids != 0])
    return [
        segmentation.join_words(text, [next(tags) for _ in text])
        for text in texts
    ]


def report_fields(
    model: keras.Model,
    texts: Sequence[str],
    vocabulary: Sequence[str],
    max_length: int = 64,
) -> field_report.FieldReport | None:
    """What the fields of a tagger are like, the mean of both directions.

    None for a model without fields; see `segment`.
    """
    ids, reports = _ids_of_pieces(texts, vocabulary, max_length), []
    layers = fields_of(model)
    found = seqmech.analysis.decisions(model, ids, BATCH) if layers else {}
    for layer in layers:
        field = found[layer.name]
        read = ids[:, ::-1] if layer.go_backwards else ids
        reports.append(
            field_report.report(field["size"], field["probabilities"], read)
        )
    if not reports:
        return None
    return field_report.FieldReport(
        *(None if None in x else float(np.mean(x)) for x in zip(*reports))
    )


def _ids_of_pieces(texts, vocabulary, max_length):
    """The ids of the pieces of all texts, padded on the right."""
    pieces = [
        x for text in texts for x in segmentation.split_text(text, max_length)
    ]
    return keras.utils.pad_sequences(
        encode(pieces, vocabulary), max_length, padding="post"
    )
