import warnings

import keras
import numpy as np
import pytest

from keras_seqmech import PolicyGradientModel
from keras_seqmech import WarnOnGateCollapse
from keras_seqmech.layers.focused_encoder.gate import BoundaryGate


def run(shares, **arguments):
    """Texts of the warnings by epoch, None where there is none."""
    callback = WarnOnGateCollapse(**arguments)
    callback.on_train_begin()
    texts = []
    for epoch, share in enumerate(shares):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            callback.on_epoch_end(
                epoch,
                {"loss": 0.0, "a_openness": share, "val_a_openness": 1.0},
            )
        texts.append(str(caught[0].message) if caught else None)
    return texts


def test_warns_once_for_each_collapse():
    texts = run([0.5, 0.0, 0.0, 0.3, 0.005, 0.995, 0.5])
    assert [text is not None for text in texts] == [
        False,
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert "nearly all are closed (a_openness=0 " in texts[1]
    assert "raise `openness_target`" in texts[1]
    assert "nearly all are open (a_openness=0.995" in texts[5]
    assert "lower `openness_target`" in texts[5]


def test_patience_counts_epochs_in_a_row():
    shares = [0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0, 1.0]
    texts = run(shares, patience=3)
    assert [i for i, text in enumerate(texts) if text] == [5]
    assert "after 3 epoch(s)" in texts[5]


def test_bounds_and_nan_are_no_collapse():
    assert run([0.1, 0.9, float("nan")], low=0.1, high=0.9) == [None] * 3
    assert all(run([0.09, 0.91], low=0.1, high=0.9))


def test_two_layers_are_followed_apart():
    callback = WarnOnGateCollapse(patience=2)
    callback.on_epoch_end(0, {"a_openness": 0.0, "b_openness": 0.5})
    callback.on_epoch_end(1, {"a_openness": 0.5, "b_openness": 0.0})
    with pytest.warns(UserWarning, match="b_openness=0 "):
        callback.on_epoch_end(2, {"a_openness": 0.0, "b_openness": 0.0})


def test_a_new_training_counts_afresh():
    callback = WarnOnGateCollapse()
    for _ in range(2):
        callback.on_train_begin()
        with pytest.warns(UserWarning, match="nearly all are open"):
            callback.on_epoch_end(0, {"a_openness": 1.0})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": -0.1}, "low=-0.1"),
        ({"high": 1.1}, "high=1.1"),
        ({"low": 0.5, "high": 0.5}, "low=0.5, high=0.5"),
        ({"patience": 0}, "patience=0"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        WarnOnGateCollapse(**arguments)


@pytest.mark.long
@pytest.mark.parametrize("initial_openness", [0.5, 0.9999])
def test_in_fit(initial_openness):
    x, context = keras.Input((6, 2)), keras.Input((2,))
    gates = BoundaryGate(
        4,
        estimator="reinforce",
        initial_openness=initial_openness,
        kernel_initializer="zeros",
        track_statistics=True,
        name="gate",
    )(x, context)
    y = keras.layers.Dense(1)(gates)
    model = PolicyGradientModel(keras.Model([x, context], y))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    data = [np.ones((64, 6, 2)), np.ones((64, 2))], np.ones((64, 1))

    def fit():
        model.fit(*data, verbose=0, callbacks=[WarnOnGateCollapse()])

    if initial_openness == 0.5:
        fit()
    else:
        with pytest.warns(UserWarning, match="gate_openness"):
            fit()


def test_a_model_without_statistics_is_refused():
    x = keras.Input((2,))
    model = keras.Model(x, keras.layers.Dense(1)(x))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="track_statistics=True"):
        model.fit(
            np.ones((2, 2)),
            np.ones((2, 1)),
            verbose=0,
            callbacks=[WarnOnGateCollapse()],
        )
