"""Run as a script, this file evaluates and trains on a saved model."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_seqmech.layers import LastPooling
from keras_seqmech.layers import MaxPooling
from keras_seqmech.training import DistillationModel

ROOT = pathlib.Path(__file__).parent.parent
BATCH, TIME, WORDS = 6, 5, 9


@keras.saving.register_keras_serializable(package="test_distillation")
class Encoder(keras.Model):
    """A subclassed model with all that differs in training."""

    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras.layers.Dense(units)
        self.norm = keras.layers.BatchNormalization(momentum=0.5)
        self.dropout = keras.layers.Dropout(0.5)

    def call(self, inputs):
        return self.dropout(self.norm(self.dense(inputs)))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def text_model(pooling, embedding, units=4):
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    mask = keras.Input((None,), dtype="bool", name="mask")
    x = embedding(tokens)
    h = keras.layers.SimpleRNN(units, return_sequences=True)(x, mask=mask)
    inputs = {"tokens": tokens, "mask": mask}
    return keras.Model(inputs, pooling(h, mask=mask))


def texts():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, TIME + 1, (BATCH, 1))
    x = {
        "tokens": rng.integers(1, WORDS, (BATCH, TIME)),
        "mask": np.arange(TIME) < lengths,
    }
    return x, rng.integers(0, 2, (BATCH,))


def text_models():
    """A model that shares a layer between student and teacher."""
    embedding = keras.layers.Embedding(WORDS, 3)
    return DistillationModel(
        text_model(LastPooling(), embedding),
        text_model(MaxPooling(), embedding),
        keras.layers.Dense(2, activation="softmax", name="head"),
    )


def vectors():
    return np.random.default_rng(0).normal(size=(BATCH, 5))


def linear(size=3):
    return keras.Sequential([keras.layers.Dense(size)])


def values(*parts):
    return [v.numpy() for part in parts for v in part.variables]


def assert_same(before, after):
    assert len(before) == len(after) > 0
    for a, b in zip(before, after):
        np.testing.assert_array_equal(a, b)


def test_text_models_with_masks():
    x, y = texts()
    model = text_models()
    model.compile("adam", metrics=["accuracy"])
    weights = np.arange(1.0, BATCH + 1)
    student = model.student.predict(x, verbose=0)
    teacher = model.teacher.predict(x, verbose=0)
    distances = np.mean((student - teacher) ** 2, axis=1)
    outputs = model.predict(x, verbose=0)
    frozen = values(model.teacher, model.classifier)
    kernel, bias = model.classifier.get_weights()
    scores = np.exp(student @ kernel + bias)
    np.testing.assert_allclose(
        outputs, scores / scores.sum(axis=1, keepdims=True), rtol=1e-5
    )
    logs = model.evaluate(x, y, sample_weight=weights, verbose=0)
    np.testing.assert_allclose(logs[0], np.mean(weights * distances), rtol=1e-5)
    logs = model.evaluate(x, y, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "accuracy"}
    np.testing.assert_allclose(logs["loss"], distances.mean(), rtol=1e-5)
    accuracy = np.mean(outputs.argmax(axis=1) == y)
    np.testing.assert_allclose(logs["accuracy"], accuracy, rtol=1e-6)
    model.optimizer.learning_rate = 0.03
    history = model.fit(x, y, epochs=15, verbose=0, validation_data=(x, y))
    assert set(history.history) == {
        *("loss", "accuracy", "val_loss", "val_accuracy")
    }
    assert history.history["val_loss"][-1] < 0.3 * distances.mean()
    assert_same(frozen, values(model.teacher, model.classifier))
    rnn = model.student.layers[-2]
    assert {id(v) for v in model.trainable_variables} == {
        id(v) for v in rnn.trainable_variables
    }


@pytest.mark.parametrize(
    "options", [{}, {"run_eagerly": True}, {"jit_compile": True}]
)
def test_subclassed_teacher_stays_as_it_is(options):
    x = vectors()
    teacher = Encoder()
    teacher.compile("adam", "mse", run_eagerly=True)
    teacher.fit(x, np.ones((BATCH, 3)), verbose=0)
    frozen = values(teacher)
    model = DistillationModel(Encoder(), teacher)
    model.compile("adam", **options)
    history = model.fit(x, epochs=2, batch_size=3, verbose=0).history
    assert set(history) == {"loss"}
    assert_same(frozen, values(teacher))
    assert len(model.trainable_variables) == 4  # no batch statistics
    expected = np.mean(
        (teacher.predict(x, verbose=0) - model.predict(x, verbose=0)) ** 2
    )
    loss = model.evaluate(x, verbose=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_gradient_is_that_of_the_mean_squared_error():
    x = vectors()
    model = DistillationModel(linear(), linear())
    model.compile(keras.optimizers.SGD(1.0))
    model.evaluate(x, verbose=0)
    kernel, bias = model.student.get_weights()
    difference = x @ kernel + bias - model.teacher.predict(x, verbose=0)
    model.fit(x, verbose=0)
    found = kernel - model.student.get_weights()[0]
    expected = 2 * x.T @ difference / difference.size
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_unbuilt_and_unfrozen_parts_stay_frozen():
    model = DistillationModel(linear(), Encoder(), linear(2))
    model.compile("adam")
    model.fit(vectors(), verbose=0)
    assert len(model.teacher.variables) > 4
    model.trainable = False
    assert model.trainable_variables == []
    model.trainable = True
    assert {id(v) for v in model.trainable_variables} == {
        id(v) for v in model.student.variables
    }


def test_what_the_students_layers_add_is_in_the_loss():
    x = vectors()

    def dense(factor):
        return keras.layers.Dense(
            3, activity_regularizer=keras.regularizers.L2(factor)
        )

    student = keras.Sequential([keras.Input((5,)), dense(0.1)])
    teacher = keras.Sequential([keras.Input((5,)), dense(100.0)])
    model = DistillationModel(student, teacher)
    model.compile("adam")
    embedding = student.predict(x, verbose=0)
    distance = np.mean((embedding - teacher.predict(x, verbose=0)) ** 2)
    added = 0.1 * np.sum(embedding**2) / BATCH
    np.testing.assert_allclose(
        model.evaluate(x, verbose=0), distance + added, rtol=1e-5
    )


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(policy):
    keras.config.set_dtype_policy(policy)
    x = vectors()
    model = DistillationModel(linear(), linear())
    model.compile("adam")
    history = model.fit(x, verbose=0).history
    difference = model.predict(x, verbose=0).astype("float32") - (
        model.teacher.predict(x, verbose=0).astype("float32")
    )
    # No smaller than float16 would make it: squared in float32.
    loss = model.evaluate(x, verbose=0)
    np.testing.assert_allclose(loss, np.mean(difference**2), rtol=1e-6)
    assert np.isfinite(history["loss"]).all()


def test_models_of_the_same_input_are_loaded():
    """Also where the shared layers are inputs, or none, or Sequential."""
    x = keras.Input((5,), name="x")
    first, second = keras.layers.Dense(4), keras.layers.Dense(3)
    pairs = [
        (
            keras.Model(x, second(first(x))),
            keras.Model(x, keras.layers.Dense(3)(first(x))),
        ),
        (
            keras.Sequential([keras.Input((5,)), first, second]),
            keras.Sequential([keras.Input((5,)), first, keras.layers.Dense(3)]),
        ),
    ]
    for student, teacher in pairs:
        model = DistillationModel(student, teacher)
        copy = DistillationModel.from_config(model.get_config())
        assert len(copy.variables) == len(model.variables) == 6
        copy.set_weights(model.get_weights())
        for part in (model, copy):
            part.compile("adam")
        data = vectors()
        assert copy.evaluate(data, verbose=0) == pytest.approx(
            model.evaluate(data, verbose=0)
        )


def test_saved_models_train_on_in_a_fresh_process(tmp_path):
    x, y = texts()
    text = text_models()
    text.compile("adam", metrics=["accuracy"])
    text.fit(x, y, verbose=0)
    text.save(tmp_path / "text.keras")
    vector = DistillationModel(linear(), Encoder(), linear(2))
    vector.compile("adam")
    vector.fit(vectors(), verbose=0)
    vector.save(tmp_path / "vector.keras")
    result = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(result.stdout.splitlines()[-1])
    expected = [text.evaluate(x, y, verbose=0)[0]]
    expected += [vector.evaluate(vectors(), verbose=0)]
    np.testing.assert_allclose(found["before"], expected, rtol=1e-5)
    text.fit(x, y, verbose=0)
    vector.fit(vectors(), verbose=0)
    expected = [text.evaluate(x, y, verbose=0)[0]]
    expected += [vector.evaluate(vectors(), verbose=0)]
    # One step of Adam on: the optimizers came along.
    np.testing.assert_allclose(found["after"], expected, rtol=1e-5)
    assert found["trainable"] == [3, 2]
    assert found["shared"] is True


def evaluate_saved(directory):
    text = keras.models.load_model(directory / "text.keras")
    vector = keras.models.load_model(directory / "vector.keras")
    x, y = texts()
    losses = []
    for _ in range(2):
        losses.append([text.evaluate(x, y, verbose=0)[0]])
        losses[-1].append(vector.evaluate(vectors(), verbose=0))
        text.fit(x, y, verbose=0)
        vector.fit(vectors(), verbose=0)
    embeddings = [
        part.get_layer("embedding") for part in (text.student, text.teacher)
    ]
    result = {
        "before": losses[0],
        "after": losses[1],
        "trainable": [len(m.trainable_variables) for m in (text, vector)],
        "shared": embeddings[0] is embeddings[1],
    }
    print(json.dumps(result))


def known(size):
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(size)])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((known(4), known(3)), r"`teacher` .*4\)\], teacher .*3\)\]"),
        (
            (
                known(3),
                keras.Sequential([keras.Input((5, 2)), keras.layers.Dense(3)]),
            ),
            r"\(batch, features\).*teacher with .*\(None, 5, 3\)",
        ),
        (("student", known(3)), "`student` .*Received: student='student'"),
        ((known(3), None), "`teacher` .*Received: teacher=None"),
        ((known(3), known(3), "softmax"), "`classifier` .*'softmax'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        DistillationModel(*arguments)


def test_bad_fits():
    x = vectors()
    model = DistillationModel(linear(4), Encoder(3))
    model.compile("adam")
    message = r"`teacher` .*\(None, 4\)\], teacher .*\(None, 3\)"
    with pytest.raises(ValueError, match=message):
        model.fit(x, verbose=0)
    model = DistillationModel(linear(), linear())
    with pytest.raises(ValueError, match="`loss` must .*Received: loss='mse'"):
        model.compile("adam", "mse")
    model.compile("adam", metrics=["mse"])
    with pytest.raises(ValueError, match="`metrics` need.*Received: y=None"):
        model.fit(x, verbose=0)


if __name__ == "__main__":
    evaluate_saved(pathlib.Path(sys.argv[1]))
