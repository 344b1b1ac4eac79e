"""Field sizes over training: the numbers, and a model left as it is."""

import keras
import numpy as np
import pytest

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import analysis


def small_model(units=2, **kwargs):
    """A model to train, its fields, and the layer they share."""
    inputs = keras.Input((5, 3), batch_size=4)
    layer = ReceptiveFieldRNN(
        keras.layers.SimpleRNNCell(4), max_size=2, return_field=True, **kwargs
    )
    x, field = layer(inputs)
    model = keras.Model(inputs, keras.layers.Dense(units)(x))
    model.compile("sgd", "mse")
    return model, keras.Model(inputs, field), layer


X = np.random.default_rng(4).normal(size=(24, 5, 3)).astype("float32")


@pytest.mark.long
def test_measuring_leaves_the_model_as_it_is():
    def train(callbacks):
        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(1)
        model, fields, layer = small_model(
            stateful=True, track_statistics=True, sample_at_inference=True
        )
        if callbacks:
            callbacks = [
                analysis.FieldSizeHistory(
                    fields, X[:4], labels=[0, 1, 0, 1], every=1
                )
            ]
        fit = model.fit(
            X,
            np.ones((24, 2)),
            batch_size=4,
            shuffle=False,
            verbose=0,
            callbacks=callbacks,
        )
        states = [state.numpy() for state in layer.states]
        return fit.history, states

    (plain, states), (measured, same) = train([]), train([True])
    assert any(name.endswith("mean_size") for name in plain)
    assert measured == plain
    np.testing.assert_array_equal(same, states)


@pytest.mark.long
def test_steps_are_the_optimizers():
    model, fields, _ = small_model()
    model.compile("sgd", "mse", steps_per_execution=2)
    record = analysis.FieldSizeHistory(fields, X[:4], every=3)
    y = np.ones((24, 2))
    model.fit(X, y, batch_size=4, verbose=0, callbacks=[record])
    # Executions end at 2, 4 and 6; 3 and 6 were due.
    assert record.history["step"] == [0, 4, 6]
    later = analysis.FieldSizeHistory(fields, X[:4], every=3)
    model.fit(X, y, batch_size=4, verbose=0, callbacks=[record, later])
    assert record.history["step"] == [0, 4, 6, 10, 12]
    assert later.history["step"] == [6, 10, 12]


def test_accuracy_needs_classes():
    model, fields, _ = small_model(units=1)
    record = analysis.FieldSizeHistory(fields, X[:4], labels=[0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"`labels`.*Received.*\(4, 1\)"):
        model.fit(X, np.ones(24), batch_size=4, callbacks=[record], verbose=0)


@pytest.mark.parametrize("kind", ["layer", "array", "tuple", "other"])
def test_history_needs_fields(kind):
    model, _, layer = small_model()
    inputs = keras.Input((5, 3))
    fields = {
        "layer": layer,
        "array": model,
        "tuple": keras.Sequential([inputs, layer]),
        "other": keras.Model(inputs, {"size": inputs}),
    }[kind]
    with pytest.raises(ValueError, match="`fields`.*Received"):
        record = analysis.FieldSizeHistory(fields, X[:4])
        model.fit(X, np.ones((24, 2)), 4, verbose=0, callbacks=[record])


@pytest.mark.long
def test_history_measures_the_model_as_it_is_at_each_step():
    inputs = keras.Input((6,), dtype="int64")
    mask = keras.ops.not_equal(inputs, 0)
    x = keras.layers.Embedding(9, 4)(inputs)
    layer = ReceptiveFieldRNN(
        keras.layers.SimpleRNNCell(5), max_size=3, return_field=True
    )
    x, field = layer(x, mask=mask)
    outputs = keras.layers.Dense(2, activation="softmax")(x)
    model, fields = keras.Model(inputs, outputs), keras.Model(inputs, field)
    model.compile(
        keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy"
    )
    random = np.random.default_rng(2)
    ids = random.integers(1, 9, (40, 6))
    ids[::2, 4:] = 0
    labels = random.integers(0, 2, 40)
    probe, answers = ids[:16], labels[:16]
    record = analysis.FieldSizeHistory(
        fields, probe, probe != 0, answers, every=3
    )
    for epochs in (2, 1):  # 8 and 4 steps; counting goes on
        model.fit(
            ids,
            labels,
            batch_size=10,
            epochs=epochs,
            verbose=0,
            callbacks=[record],
        )
    assert record.history["step"] == [0, 3, 6, 9, 12]
    assert len(set(record.history["mean_size"])) == 5
    assert len(record.history["accuracy"]) == 5

    # The last measurement was after the last step.
    total = count = 0
    for row, d in zip(probe, fields(probe)["probabilities"].numpy()):
        length = int((row != 0).sum())
        for t in range(length):
            total += sum(d[t, i] * min(i + 1, length - t) for i in range(3))
            count += 1
    mean = record.history["mean_size"][-1]
    assert mean == pytest.approx(total / count, rel=1e-5)
    accuracy = (model(probe).numpy().argmax(-1) == answers).mean()
    assert record.history["accuracy"][-1] == pytest.approx(accuracy)


@pytest.mark.parametrize(
    "arguments, name",
    [
        (dict(inputs=X, every=0), "every"),
        (dict(inputs=X, labels=[1]), "labels"),
    ],
)
def test_bad_input(arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`.*Received"):
        analysis.FieldSizeHistory(None, **arguments)
