import keras
import numpy as np
import pytest

from keras_seqmech.pooling import LastPooling
from keras_seqmech.pooling import MaxPooling
from keras_seqmech.training import DistillationModel

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


def text_model(pooling, units=4):
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    mask = keras.Input((None,), dtype="bool", name="mask")
    x = keras.layers.Embedding(WORDS, 3)(tokens)
    h = keras.layers.SimpleRNN(units, return_sequences=True)(x, mask=mask)
    inputs = {"tokens": tokens, "mask": mask}
    return keras.Model(inputs, pooling(h, mask=mask))


def text_models():
    return DistillationModel(
        text_model(LastPooling()),
        text_model(MaxPooling()),
        keras.layers.Dense(2, activation="softmax", name="head"),
    )


def texts():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, TIME + 1, (BATCH, 1))
    x = {
        "tokens": rng.integers(1, WORDS, (BATCH, TIME)),
        "mask": np.arange(TIME) < lengths,
    }
    return x, rng.integers(0, 2, (BATCH,))


def vectors():
    return np.random.default_rng(0).normal(size=(BATCH, 5))


def linear(size=3):
    """Not built."""
    return keras.Sequential([keras.layers.Dense(size)])


def known(size=3, **options):
    layer = keras.layers.Dense(size, **options)
    return keras.Sequential([keras.Input((5,)), layer])


def head_with_dropout():
    layers = [keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((3,)), *layers])


def values(*parts):
    return [v.numpy() for part in parts for v in part.variables]


def assert_same(before, after):
    assert len(before) == len(after) > 0
    for a, b in zip(before, after):
        np.testing.assert_array_equal(a, b)


def assert_trained_is(model, variables):
    assert {id(v) for v in model.trainable_variables} == set(map(id, variables))


def test_text_models_with_masks():
    x, y = texts()
    model = text_models()
    model.compile(
        keras.optimizers.Adam(0.01), metrics=["accuracy"], run_eagerly=True
    )
    weights = np.arange(1.0, BATCH + 1)
    student = model.student(x).numpy()
    distances = np.mean((student - model.teacher(x).numpy()) ** 2, axis=1)
    outputs = model.predict(x, verbose=0)
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
    frozen = values(model.teacher, model.classifier)
    history = model.fit(x, y, epochs=6, verbose=0, validation_data=(x, y))
    assert set(history.history) == {
        *("loss", "accuracy", "val_loss", "val_accuracy")
    }
    assert history.history["val_loss"][-1] < 0.8 * distances.mean()
    assert_same(frozen, values(model.teacher, model.classifier))
    assert_trained_is(model, model.student.trainable_variables)


@pytest.mark.long
def test_subclassed_teacher_stays_as_it_is():
    x = vectors()
    teacher = Encoder()
    teacher.compile("adam", "mse", run_eagerly=True)
    teacher.fit(x, np.ones((BATCH, 3)), verbose=0)
    frozen = values(teacher)
    model = DistillationModel(Encoder(), teacher)
    model.compile("adam", jit_compile=True)
    history = model.fit(x, epochs=2, batch_size=3, verbose=0).history
    assert set(history) == {"loss"}
    assert_same(frozen, values(teacher))
    assert len(model.trainable_variables) == 4  # no batch statistics
    expected = np.mean((teacher(x) - model(x)) ** 2)
    loss = model.evaluate(x, verbose=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_gradient_is_that_of_the_mean_squared_error():
    """Also where parts are built by `fit`, and where they were frozen."""
    x = vectors()
    model = DistillationModel(linear(), Encoder(), linear(2))
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    model.evaluate(x, verbose=0)
    kernel, bias = model.student.get_weights()
    difference = x @ kernel + bias - model.teacher(x, training=False)
    model.trainable = False
    assert model.trainable_variables == []
    model.trainable = True
    assert_trained_is(model, model.student.variables)
    model.fit(x, verbose=0)
    found = kernel - model.student.get_weights()[0]
    expected = 2 * x.T @ difference / np.size(difference)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("head", [None, head_with_dropout])
def test_the_loss_is_that_of_the_outputs_given(head):
    """However many passes there were; what only the student adds is in it."""
    student = known(activity_regularizer=keras.regularizers.L2(0.1))
    teacher = known(
        activity_regularizer=keras.regularizers.L2(100.0),
        kernel_regularizer="l2",
    )
    model = DistillationModel(student, teacher, head and head())
    model.compile("adam")
    data = [vectors(), 1 - vectors(), 2 * vectors()]
    for i in (0, 2):
        embedding = student(data[i]).numpy()
        distance = np.mean((embedding - teacher(data[i]).numpy()) ** 2)
        (added,) = student.losses
        outputs = model(data[i])
        loss = model.compute_loss(data[i], None, outputs, training=False)
        np.testing.assert_allclose(loss, distance + added, rtol=1e-5)
    student.layers[-1].activity_regularizer = None
    outputs = [model(x) for x in data]
    for i in (0, 2, 2, 1):
        loss = model.compute_loss(data[i], None, outputs[i], training=False)
        expected = np.mean((student(data[i]) - teacher(data[i])) ** 2)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [dict(jit_compile=True), dict(steps_per_execution=2)]
)
def test_gradients_are_accumulated(options):
    """The classifier infers while the student trains: no dropout."""
    x, y = vectors(), np.ones((BATCH, 2))
    weights, metrics = [], []
    for batch_size, accumulated in ((6, None), (3, 2)):
        keras.utils.set_random_seed(0)
        model = DistillationModel(known(), known(), head_with_dropout())
        optimizer = keras.optimizers.SGD(
            0.5, gradient_accumulation_steps=accumulated
        )
        model.compile(optimizer, metrics=["mse"], **options)
        start = model.get_weights()
        expected = np.mean((model(x) - y) ** 2)
        fit = model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0)
        weights.append(model.get_weights())
        metrics += fit.history["mse"]
    np.testing.assert_allclose(metrics, [expected] * 2, rtol=1e-5)
    assert np.abs(start[0] - weights[0][0]).max() > 1e-3
    for a, b in zip(*weights):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(policy):
    keras.config.set_dtype_policy(policy)
    x = vectors()
    model = DistillationModel(linear(), linear())
    model.compile("adam", run_eagerly=True)
    history = model.fit(x, verbose=0).history
    student, teacher = (
        np.asarray(part.predict(x, verbose=0), "float32")
        for part in (model, model.teacher)
    )
    # No smaller than float16 would make it: squared in float32.
    loss = model.evaluate(x, verbose=0)
    np.testing.assert_allclose(
        loss, np.mean((student - teacher) ** 2), rtol=1e-6
    )
    assert np.isfinite(history["loss"]).all()


def test_layers_with_weights_are_not_shared():
    x = keras.Input((5,))
    shared = keras.layers.Dense(5, name="shared")
    base = keras.Sequential([keras.Input((5,)), shared])
    flat = keras.Model(x, shared(x))
    nested = keras.Model(x, keras.layers.Activation("tanh")(base(x)))
    unbuilt, other = Encoder(5), Encoder(5)
    other.dense = unbuilt.dense = keras.layers.Dense(5, name="shared")
    for parts, names in (
        ((nested, flat), "`student` and `teacher`"),
        ((unbuilt, other), "`student` and `teacher`"),
        ((known(5), flat, base), "`teacher` and `classifier`"),
    ):
        message = f"{names} may not share.*clone.*Received: .*'shared'"
        with pytest.raises(ValueError, match=message):
            DistillationModel(*parts)
    with pytest.raises(ValueError, match="`student` and `teacher` may not"):
        DistillationModel(flat, flat)
    tanh = keras.layers.Activation("tanh")
    models = [keras.Model(x, keras.layers.Dense(3)(tanh(x))) for _ in range(2)]
    assert DistillationModel(*models).built


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda: (known(4), known()), r"`teacher` .*4\)\], teacher .*3\)\]"),
        (
            lambda: (
                known(3),
                keras.Sequential([keras.Input((5, 2)), keras.layers.Dense(3)]),
            ),
            r"\(batch, features\).*teacher with .*\(None, 5, 3\)",
        ),
        (lambda: ("student", known()), "`student` .*: student='student'"),
        (lambda: (known(), None), "`teacher` .*Received: teacher=None"),
        (lambda: (known(), known(), "softmax"), "`classifier` .*'softmax'"),
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
