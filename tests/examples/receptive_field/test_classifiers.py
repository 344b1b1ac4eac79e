"""Text classifiers with and without receptive fields."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.receptive_field import cells  # noqa: E402
from examples.receptive_field import classifiers  # noqa: E402
from examples.receptive_field import classify_text  # noqa: E402
from keras_seqmech import PolicyGradientModel  # noqa: E402
from tests.examples.receptive_field.small_reviews import SMALL  # noqa: E402

pytestmark = pytest.mark.long


def arguments(folder, results, *more):
    return [
        *("--dataset", "mr", "--data-dir", str(folder)),
        *("--results", str(results), *SMALL, *more),
    ]


@pytest.mark.parametrize("name", cells.MODELS)
def test_models_ignore_padding(name):
    """More padding changes nothing, and each has the parts it is named for."""
    args = classify_text.parse(arguments("data", "results"))
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    outputs = []
    for length in (4, 7):
        keras.utils.set_random_seed(0)
        model, fields = classifiers.build_model(name, matrix, length, 3, args)
        ids = np.zeros((2, length), dtype="int64")
        ids[0, :3], ids[1, :2] = (5, 8, 1), (3, 2)
        outputs.append(model(ids).numpy())
        if fields is not None:
            probabilities = fields(ids)["probabilities"]
            size = 1 if name.endswith("-") else 4
            assert probabilities.shape == (2, length, size)
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-6)
    assert (fields is not None) == ("+" in name)
    shapes = [tuple(weight.shape) for weight in model.weights]
    kernel = (5, 24) if name.startswith("lstm") else (5, 6)
    assert kernel in shapes


@pytest.mark.parametrize("name", ["rnn+rf", "rnn+rf-rl"])
def test_drawn_sizes_are_trained_by_policy_gradient(name):
    args = classify_text.parse(arguments("data", "results"))
    matrix = np.ones((9, 5), dtype="float32")
    model, fields = classifiers.build_model(name, matrix, 4, 3, args)
    trained = classifiers.trainable(name, model, args)
    drawn = name == "rnn+rf-rl"
    assert isinstance(trained, PolicyGradientModel) == drawn
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    assert ("log_probability" in fields(ids)) == drawn
    history = trained.fit(ids, np.array([0, 2]), verbose=0).history
    assert 0 <= history["accuracy"][0] <= 1


def test_the_price_of_drawn_sizes_is_part_of_their_reward():
    """Drawn sizes have no gradient: nothing else makes them small."""
    options = ["--learning-rate", "0.05", "--dropout", "0"]
    args = classify_text.parse([*arguments("data", "results"), *options])
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    ids = np.random.default_rng(1).integers(1, 9, size=(64, 4))
    labels = np.zeros(64)
    sizes = []
    for price in (0, 20):
        keras.utils.set_random_seed(0)
        model, fields = classifiers.build_model(
            "lstm+rf-rl", matrix, 4, 2, args
        )
        (layer,) = (x for x in model.layers if hasattr(x, "penalties"))
        layer.penalties.reading.assign(price)
        trained = classifiers.trainable("lstm+rf-rl", model, args)
        trained.fit(ids, labels, batch_size=32, epochs=12, verbose=0)
        sizes.append(fields.predict(ids, verbose=0)["probabilities"])
    free, paid = (p[..., 0].mean() for p in sizes)
    assert paid > free + 0.1
