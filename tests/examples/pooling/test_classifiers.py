"""Classifiers of the pooling studies, and how they are trained."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.pooling import classifiers  # noqa: E402
from examples.pooling import experiments  # noqa: E402
from examples.pooling import noisy_texts  # noqa: E402
from tests.examples.pooling.small_study import run_small  # noqa: E402

pytestmark = pytest.mark.long


class Answer(keras.callbacks.Callback):
    """Makes a model answer one class in each epoch."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def on_epoch_begin(self, epoch, logs=None):
        kernel, bias = self.model.get_layer("classifier").weights
        kernel.assign(np.zeros(kernel.shape))
        bias.assign(9 * np.eye(2)[self.answers[epoch]])


@pytest.mark.parametrize("name", classifiers.BILSTMS)
def test_models_ignore_padding(name):
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    model = classifiers.bilstm_classifier(name, matrix, 3, 4, forget_bias=2.0)
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    padded = np.pad(ids, ((0, 0), (0, 3)))
    expected = model(ids).numpy()
    np.testing.assert_allclose(model(padded), expected, atol=1e-6)
    assert expected.shape == (2, 3) and np.ptp(expected, axis=0).all()
    rnn = model.get_layer("rnn")
    forget = 0 if name == "bilstm_lowf" else 2
    for lstm in (rnn.forward_layer, rnn.backward_layer):
        bias = lstm.cell.bias.numpy().reshape(4, 4)
        assert bias[1].tolist() == [forget] * 4 and not bias[[0, 2, 3]].any()
    np.testing.assert_array_equal(
        model.get_layer("embedding").weights[0], matrix
    )


def test_the_best_epoch_on_the_validation_part_stays(monkeypatch):
    run_small(monkeypatch)
    ids = [np.array([2, 3], dtype="int32")] * 4
    labels = np.array([[1, 1, 1, 1], [0, 0, 0, 1], [1, 1, 0, 1]])
    parts = [noisy_texts.Texts(ids, own) for own in labels.astype("int32")]
    data = noisy_texts.StudyData(("x", "y"), ["a", "b"], *parts)
    matrix = np.zeros((4, 3), dtype="float32")
    model = classifiers.bilstm_classifier("meanpool", matrix, 2, 1)
    classifiers.compile_classifier(model, learning_rate=0.0)
    answers = Answer([1, 0, 1])
    history = classifiers.fit(model, data, 0, 9, 4, 1, [answers])
    assert history["val_accuracy"] == [0.25, 0.75, 0.25]
    assert history["accuracy"] == [1, 0, 1]
    assert experiments.summary(history)["best_epoch"] == 2
    assert classifiers.accuracy(model, data.test) == 0.25
    assert classifiers.accuracy(model, data.train) == 0
