"""Taggers for Chinese word segmentation: batches, models, training, use."""

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from examples.receptive_field import cells
from examples.receptive_field import field_report
from examples.receptive_field.segmentation import TAGS
from examples.receptive_field.segmentation import Words
from examples.receptive_field.segmentation import join_words
from examples.receptive_field.segmentation import split_text
from examples.receptive_field.segmentation import tag_words
from keras_seqmech import DecisionPenalties
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN

FIRST_CHARACTER = 2  # 0 is padding, 1 stands for unknown characters.


def encode(texts: Sequence[str], vocabulary: Sequence[str]) -> list[np.ndarray]:
    """The ids of each text's characters, 1 where a character is unknown."""
    ids = {
        character: number
        for number, character in enumerate(vocabulary, FIRST_CHARACTER)
    }
    return [
        np.array([ids.get(character, 1) for character in text], "int32")
        for text in texts
    ]


def training_batches(
    sentences: Sequence[Words],
    vocabulary: Sequence[str],
    batch_size: int,
    lengths: Sequence[int] = (32, 64),
    seed: int | None = None,
) -> tuple[tf.data.Dataset, int]:
    """Endless shuffled batches for `fit`, and how many make an epoch.

    Pieces wait in a bucket for others of about their length and are padded on
    the right to the bucket's length; the batch has always the same size, so
    XLA compiles once a bucket. Weights are 0 at padding.

    Args:
        sentences: The words of each sentence.
        vocabulary: From `character_vocabulary`.
        batch_size: Pieces a batch.
        lengths: Of the buckets; the last is the greatest length of a piece.
        seed: Of the shuffling.

    Returns:
        A dataset of `(ids, tags, weights)`, each `(batch_size, length)`, and
        the number of batches that hold as many pieces as there are.
    """
    pieces, tags = [], []
    for words in sentences:
        text, letters = tag_words(words)
        for piece in split_text(text, lengths[-1]):
            pieces.append(piece)
            tags.append([TAGS.index(tag) for tag in letters[: len(piece)]])
            letters = letters[len(piece) :]
    row_lengths = [len(piece) for piece in pieces]
    ids = np.concatenate(encode(pieces, vocabulary))
    flat_tags = np.concatenate(tags).astype("int32")
    dataset = tf.data.Dataset.from_tensor_slices(
        tuple(
            tf.RaggedTensor.from_row_lengths(values, row_lengths)
            for values in (ids, flat_tags)
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
    dropout: float = 0.2,
    temperature: float = 1.0,
    bidirectional: bool = False,
    seed: int | None = None,
    gated: str = "memory",
    size_from: str = "input",
    fixed: bool = False,
) -> keras.Model:
    """A tagger: ids `(batch, time)` in, probabilities of the tags out.

    Args:
        kind: One of `cells.MODELS`.
        vocabulary_size: Characters known.
        units: Of the recurrent cell.
        embedding_units: Of the characters' vectors.
        max_size: The largest field.
        summary: `"mean"` or `"last"`, of a field.
        dropout: On both sides of the recurrent layer.
        temperature: Of the relaxed field sizes.
        bidirectional: Whether a second recurrent layer reads from the end.
        seed: Of the field sizes' noise.
        gated: The states that a field gates, see `ReceptiveFieldRNN`.
        size_from: What sizes are chosen from, likewise.
        fixed: Whether fields read `max_size` characters from the start, held
            there by a target.

    Returns:
        A model with outputs `"tags"`, `(batch, time, 4)`, and, with a
        receptive field, `"size"`, `(batch, time)`, the mean of both
        directions.
    """
    if kind not in cells.MODELS:
        raise ValueError(
            f"Argument `kind` must be one of {cells.MODELS}. "
            f"Received: kind={kind!r}"
        )
    ids = keras.Input((None,), dtype="int32", name="ids")
    mask = ops.not_equal(ids, 0)
    x = keras.layers.Embedding(
        vocabulary_size + FIRST_CHARACTER, embedding_units
    )(ids)
    x = keras.layers.Dropout(dropout)(x)
    cell, _, field = kind.partition("+")
    penalties = None
    if fixed and field != "rf-":
        penalties = DecisionPenalties(target=max_size, target_weight=10.0)
    read, sizes = [], []
    for backwards in (False, True) if bidirectional else (False,):
        options = {"return_sequences": True, "go_backwards": backwards}
        if field:
            layer = ReceptiveFieldRNN(
                cells.CELLS[cell](units),
                **cells.field_arguments(kind, max_size),
                penalties=penalties,
                summary=summary,
                temperature=temperature,
                gated=gated,
                size_from=size_from,
                seed=seed,
                return_field=True,
                track_statistics=True,
                jit_compile=True,
                name="field_backwards" if backwards else "field",
                **options,
            )
            y, decisions = layer(x, mask=mask)
            sizes.append(_flip(decisions["size"], backwards))
        else:
            y = cells.LAYERS[cell](units, **options)(x, mask=mask)
        read.append(_flip(y, backwards))
    x = ops.concatenate(read, axis=-1)
    x = keras.layers.Dropout(dropout)(x)
    outputs = {"tags": keras.layers.Dense(len(TAGS), activation="softmax")(x)}
    if sizes:
        outputs["size"] = sum(sizes) / len(sizes)
    return keras.Model(ids, outputs)


def _flip(x, backwards):
    return ops.flip(x, axis=1) if backwards else x


class StepTimer(keras.callbacks.Callback):
    """Measures what training steps take; `median` is robust to the first."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self._start = time.perf_counter()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self.seconds.append(time.perf_counter() - self._start)

    @property
    def median(self) -> float:
        """Seconds a step."""
        return float(np.median(self.seconds))


def train(
    model: keras.Model,
    sentences: Sequence[Words],
    vocabulary: Sequence[str],
    epochs: int,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    seed: int | None = None,
    verbose: str | int = "auto",
    callbacks: Sequence[keras.callbacks.Callback] = (),
    policy_gradient: bool = False,
) -> StepTimer:
    """Fits a tagger with Adam, the learning rate falling along a cosine.

    Args:
        model: From `build_model`.
        sentences: The words of each sentence.
        vocabulary: From `character_vocabulary`.
        epochs: Times each piece is seen.
        batch_size: Pieces a batch.
        learning_rate: The first one.
        seed: Of the shuffling.
        verbose: As in `keras.Model.fit`.
        callbacks: Likewise.
        policy_gradient: Whether its fields draw their sizes.

    Returns:
        The times of the steps.
    """
    batches, steps = training_batches(
        sentences, vocabulary, batch_size, seed=seed
    )
    schedule = keras.optimizers.schedules.CosineDecay(
        learning_rate, steps * epochs
    )
    tagger = keras.Model(model.input, model.output["tags"])
    if policy_gradient:
        tagger = PolicyGradientModel(tagger)
    tagger.compile(
        keras.optimizers.Adam(schedule, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(
            reduction="mean_with_sample_weight"
        ),
        weighted_metrics=["accuracy"],
        # The receptive field's loop is compiled on its own; XLA on the whole
        # model was measured slower here on CPU.
        jit_compile=False,
    )
    timer = StepTimer()
    tagger.fit(
        batches,
        epochs=epochs,
        steps_per_epoch=steps,
        shuffle=False,
        callbacks=[timer, *callbacks],
        verbose=verbose,
    )
    return timer


def segment(
    model: keras.Model,
    texts: Sequence[str],
    vocabulary: Sequence[str],
    max_length: int = 64,
    batch_size: int = 256,
) -> tuple[list[Words], float | None]:
    """Finds the words of each text.

    Args:
        model: From `build_model`.
        texts: Any strings.
        vocabulary: From `character_vocabulary`.
        max_length: Of the pieces that the model reads.
        batch_size: Pieces a batch.

    Returns:
        The words of each text, and the mean number of characters in a
        receptive field; None for a model without.
    """
    groups, ids = _encode_pieces(texts, vocabulary, max_length)
    predicted = model.predict(ids, batch_size=batch_size, verbose=0)
    letters = np.array(TAGS)[np.argmax(predicted["tags"], axis=-1)]
    lengths = np.count_nonzero(ids, axis=1)
    tags = iter("".join(row[:length]) for row, length in zip(letters, lengths))
    words = [
        join_words(text, "".join(next(tags) for _ in group))
        for text, group in zip(texts, groups)
    ]
    if "size" not in predicted:
        return words, None
    return words, float(predicted["size"].sum() / np.count_nonzero(ids))


def report_fields(
    model: keras.Model,
    texts: Sequence[str],
    vocabulary: Sequence[str],
    max_length: int = 64,
    batch_size: int = 256,
) -> field_report.FieldReport | None:
    """What the fields of a tagger are like.

    Args:
        model: From `build_model`.
        texts: Any strings.
        vocabulary: From `character_vocabulary`.
        max_length: Of the pieces that the model reads.
        batch_size: Pieces a batch.

    Returns:
        A report, the mean of both directions; None for a model without fields.
    """
    fields = [
        layer for layer in model.layers if isinstance(layer, ReceptiveFieldRNN)
    ]
    if not fields:
        return None
    _, ids = _encode_pieces(texts, vocabulary, max_length)
    reports = []
    for layer in fields:
        shown = keras.Model(model.input, field_report.field_of(layer))
        field = shown.predict(ids, batch_size=batch_size, verbose=0)
        read = ids[:, ::-1] if layer.go_backwards else ids
        reports.append(
            field_report.report(field["size"], field["probabilities"], read)
        )
    return field_report.average(reports)


def _encode_pieces(
    texts: Sequence[str], vocabulary: Sequence[str], max_length: int
) -> tuple[list[list[str]], np.ndarray]:
    """The pieces of each text, and the ids of all, padded on the right."""
    groups = [split_text(text, max_length) for text in texts]
    encoded = encode([p for group in groups for p in group], vocabulary)
    ids = np.zeros((len(encoded), max_length), "int32")
    for row, piece in zip(ids, encoded):
        row[: len(piece)] = piece
    return groups, ids
