"""Run as a script, this file trains on saved models and on two devices."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.pooling import LastPooling
from keras_seqmech.pooling import MaxPooling
from keras_seqmech.training import DistillationModel
from keras_seqmech.training import GradientDirectedModel
from tests import ROOT

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


@pytest.mark.long
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


@pytest.mark.long
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


def head_with_dropout():
    layers = [keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((3,)), *layers])


def test_classifier_infers_while_the_student_trains():
    x, y = vectors(), np.ones((BATCH, 2))
    model = DistillationModel(known(3), known(3), head_with_dropout())
    model.compile(keras.optimizers.SGD(0.0), metrics=["mse"])
    history = model.fit(x, y, verbose=0).history
    outputs = model.predict(x, verbose=0)
    np.testing.assert_allclose(
        history["mse"][0], np.mean((outputs - 1) ** 2), rtol=1e-5
    )


@pytest.mark.parametrize("head", [None, head_with_dropout])
def test_the_loss_is_that_of_the_outputs_given(head):
    """However many passes there were, in whichever order."""
    model = DistillationModel(known(3), known(3), head and head())
    model.compile("adam")
    data = [vectors(), 1 - vectors(), 2 * vectors()]
    outputs = [model(x) for x in data]
    student = [model.student(x).numpy() for x in data]
    teacher = [model.teacher(x).numpy() for x in data]
    for i in (0, 2, 2, 1):
        loss = model.compute_loss(data[i], None, outputs[i], training=False)
        expected = np.mean((student[i] - teacher[i]) ** 2)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [dict(jit_compile=True), dict(steps_per_execution=2)],
)
def test_gradients_are_accumulated(options):
    x = vectors()
    weights = []
    for batch_size, accumulated in ((6, None), (3, 2)):
        keras.utils.set_random_seed(0)
        model = DistillationModel(known(3), known(3), head_with_dropout())
        model.compile(
            keras.optimizers.SGD(0.5, gradient_accumulation_steps=accumulated),
            **options,
        )
        start = model.get_weights()
        model.fit(x, batch_size=batch_size, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    assert np.abs(start[0] - weights[0][0]).max() > 1e-3
    for a, b in zip(*weights):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


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


def test_a_directed_teacher_that_shares_a_layer_is_loaded():
    x = keras.Input((4, 2), name="x")
    h = keras.layers.Dense(3, name="shared")(x)
    teacher = GradientDirectedModel(
        keras.Model(x, keras.layers.SimpleRNN(3)(h)), layer="shared"
    )
    student = keras.Model(x, LastPooling()(h))
    model = DistillationModel(student, teacher)
    copy = DistillationModel.from_config(model.get_config())
    shared = [part.get_layer("shared") for part in (copy.student, copy.teacher)]
    assert shared[0] is shared[1]
    assert len(copy.weights) == len(model.weights) == 5
    copy.set_weights(model.get_weights())
    data = np.random.default_rng(0).normal(size=(BATCH, 4, 2))
    np.testing.assert_array_equal(
        copy.teacher.predict(data, verbose=0),
        teacher.predict(data, verbose=0),
    )


def sharing_models():
    """Pairs, and a classifier, that share a layer where none can be saved."""
    x = keras.Input((5,))
    shared = keras.layers.Dense(5, name="shared")
    base = keras.Sequential([keras.Input((5,)), shared])
    flat = keras.Model(x, shared(x))
    nested = keras.Model(x, keras.layers.Activation("tanh")(base(x)))
    subclassed = Encoder()
    subclassed.extra = shared
    unbuilt = Encoder(5)
    other = Encoder(5)
    other.dense = unbuilt.dense = keras.layers.Dense(5, name="shared")
    head = keras.Sequential([keras.Input((5,)), shared])
    return {
        "nested student": (nested, flat),
        "nested teacher": (flat, nested),
        "at both depths": (flat, keras.Model(x, base(shared(x)))),
        "subclassed": (subclassed, flat),
        "not built": (unbuilt, other),
        "teacher in student": (keras.Model(x, -flat(x)), flat),
        "classifier": (known(5), flat, head),
    }


def test_sharing_that_could_not_be_loaded():
    message = "may share.*clone it.*Received: .*'shared'"
    for kind, parts in sharing_models().items():
        with pytest.raises(ValueError, match=message):
            pytest.fail(f"{kind}: {DistillationModel(*parts)}")


def test_layers_without_weights_may_be_shared():
    x = keras.Input((5,))
    tanh = keras.layers.Activation("tanh")
    base = keras.Sequential([keras.Input((5,)), tanh])
    models = [
        keras.Model(x, keras.layers.Dense(3)(part(x))) for part in (tanh, base)
    ]
    assert DistillationModel(*models).built


@pytest.mark.long
def test_backup_and_restore_and_weight_files(tmp_path):
    """Out of the box, before the model was ever called."""
    x, y = texts()

    def run(directory, stop_at=None):
        class Stop(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == stop_at:
                    raise KeyboardInterrupt

        keras.utils.set_random_seed(0)
        model = text_models()
        model.compile("adam", metrics=["accuracy"], run_eagerly=True)
        callbacks = [keras.callbacks.BackupAndRestore(directory), Stop()]
        history = model.fit(
            x, y, epochs=4, verbose=0, callbacks=callbacks
        ).history
        return history, model

    whole, model = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", stop_at=2)
    rest, restored = run(tmp_path / "cut")
    assert rest == {name: values[2:] for name, values in whole.items()}
    assert_same(values(model), values(restored))
    model.save_weights(tmp_path / "a.weights.h5")
    other = text_models()
    other.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(
        model.predict(x, verbose=0), other.predict(x, verbose=0)
    )


@pytest.mark.long
def test_early_stopping_and_checkpoints_keep_the_best(tmp_path):
    x = vectors()
    model = DistillationModel(known(3), known(3))
    model.compile(keras.optimizers.SGD())
    best = tmp_path / "best.keras"
    rates = [0.1, 0.1, 100.0, 0.1]
    history = model.fit(
        x,
        epochs=4,
        validation_data=(x, None),
        verbose=0,
        callbacks=[
            keras.callbacks.LearningRateScheduler(lambda epoch: rates[epoch]),
            keras.callbacks.ModelCheckpoint(best, save_best_only=True),
            keras.callbacks.EarlyStopping(restore_best_weights=True),
        ],
    ).history
    losses = history["val_loss"]
    assert len(losses) == 3 and losses[1] < losses[0] < losses[2]
    loaded = keras.models.load_model(best)
    for part in (model, loaded):
        loss = part.evaluate(x, verbose=0)
        np.testing.assert_allclose(loss, losses[1], rtol=1e-6)
    assert len(loaded.trainable_variables) == 2


@pytest.mark.long
def test_saved_models_train_on_in_a_fresh_process(tmp_path):
    """On two devices too, where it is as on one."""
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
        [sys.executable, "-m", __name__, str(tmp_path)],
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
    for one, two in zip(found["one device"], found["two devices"]):
        np.testing.assert_allclose(one, two, rtol=1e-4)


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
        "one device": train_on(contextlib.nullcontext()),
        "two devices": train_on(
            tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope()
        ),
    }
    print(json.dumps(result))


def activity_loss():
    return keras.layers.ActivityRegularization(l2=1.0)


def train_on(scope):
    """Loss and weights after a step of models whose layers add a loss."""
    results = []
    sequences = np.random.default_rng(0).normal(size=(BATCH, 4, 2))
    with scope:
        keras.utils.set_random_seed(0)
        student = keras.Sequential([known(3), activity_loss()])
        models = [DistillationModel(student, known(3))]
        x = keras.Input((4, 2), name="x")
        h = keras.layers.SimpleRNN(3, unroll=True)(x)
        y = activity_loss()(h)
        models.append(GradientDirectedModel(keras.Model(x, y), layer="x"))
        models[0].compile(keras.optimizers.SGD(0.5))
        models[1].compile(keras.optimizers.SGD(0.5), "mse")
    data = [(vectors(),), (sequences, np.ones((BATCH, 3)))]
    for model, arrays in zip(models, data):
        start = np.concatenate([w.ravel() for w in model.get_weights()])
        logs = model.fit(*arrays, shuffle=False, verbose=0).history
        end = np.concatenate([w.ravel() for w in model.get_weights()])
        moved = (end - start)[end != start]
        results.append([value[0] for value in logs.values()])
        results.append(moved.tolist())
    return results


def known(size):
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(size)])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda: (known(4), known(3)), r"`teacher` .*4\)\], teacher .*3\)\]"),
        (
            lambda: (
                known(3),
                keras.Sequential([keras.Input((5, 2)), keras.layers.Dense(3)]),
            ),
            r"\(batch, features\).*teacher with .*\(None, 5, 3\)",
        ),
        (lambda: ("student", known(3)), "`student` .*: student='student'"),
        (lambda: (known(3), None), "`teacher` .*Received: teacher=None"),
        (lambda: (known(3), known(3), "softmax"), "`classifier` .*'softmax'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        DistillationModel(*arguments())


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


def test_a_student_is_not_its_own_teacher():
    student = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="`teacher`.*Received: teacher="):
        DistillationModel(student, student)
    assert student.trainable_variables


if __name__ == "__main__":
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    evaluate_saved(pathlib.Path(sys.argv[1]))
