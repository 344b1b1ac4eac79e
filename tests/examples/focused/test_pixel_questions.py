"""The study of pixel-by-pixel questions, of tiny models."""

import keras
import numpy as np
import pytest

from examples.common import interleaved
from examples.focused import experiments
from examples.focused import models
from examples.focused import pixel_questions
from examples.tasks import pixel_question
from tests.examples.files import read

pytestmark = [
    pytest.mark.long,
    # A few steps decide nothing.
    pytest.mark.filterwarnings("ignore:The decisions of layer 'encoder'"),
]

SMALL = [
    *("--batch-size", "16"),
    *("--units", "6"),
    *("--steps", "10"),
    *("--evaluate-every", "5"),
    *("--test-size", "40"),
]


def check(row, args, test):
    """The saved model answers as the row says."""
    images, labels = test
    asked, answers = pixel_question.examples(
        images[:40], labels[:40], pixel_questions.TEST_SEED
    )
    key = [row[name] for name in experiments.KEY]
    model = keras.models.load_model(experiments.model_path(args, key))
    found = models.probe(model).predict(asked, verbose=0)
    right = found["logits"].argmax(axis=-1) == answers
    assert 100 * right.mean() == pytest.approx(float(row["accuracy"]), abs=0.01)
    if row["model"] == "fhe":
        openness = pytest.approx(float(row["openness"]), abs=0.01)
        assert 100 * found["gates"].mean() == openness


@pytest.mark.slow
def test_mnist(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    generator = np.random.default_rng(0)
    images = generator.integers(256, size=(90, 4, 4)).astype("uint8")
    labels = np.arange(90) % 10
    np.savez(
        tmp_path / "mnist" / "mnist.npz",
        x_train=images[:70],
        y_train=labels[:70],
        x_test=images[70:],
        y_test=labels[70:],
    )
    output = tmp_path / "q.csv"
    options = [*SMALL, "--output", str(output), "--mnist"]
    options += ["--models", "lstm1", "fhe"]
    options += ["--data-dir", str(tmp_path), "--start-size", "2"]
    timed, median_ms = [], interleaved.median_ms

    def watch(functions, repeats):
        timed.extend(x.args[0]["pixels"].shape for x in functions)
        return median_ms(functions, repeats)

    monkeypatch.setattr(interleaved, "median_ms", watch)
    pixel_questions.main(options)
    # The time is that of whole images, not of the small ones at first.
    # Beside two LSTMs, in a graph and with XLA.
    assert timed == [(16, 16, 1)] * 2 * 3 * 2
    lstm, gated = read(output)
    assert lstm["task"] == "mnist" and gated["steps"] == "10"
    assert (lstm["estimator"], gated["estimator"]) == ("", "relaxed")
    assert "start_size=2" in gated["settings"]
    _, test = pixel_question.load_mnist(tmp_path)
    for row in (lstm, gated):
        check(row, pixel_questions.parse(options), test)


def test_small_images_come_first():
    """Small and whole batches have the same questions, in the same order."""
    images = np.random.default_rng(0).random((20, 4, 4)).astype("float32")

    def read_batches(step, count, *options):
        args = pixel_questions.parse(["--batch-size", "8", *options])
        data = pixel_questions.batches(
            images, np.arange(20) % 10, args, seed=3, step=step
        )
        return [
            (asked["pixels"].numpy(), asked["digit"].numpy().tolist())
            for asked, _ in data.take(count)
        ]

    plain = read_batches(0, 8)
    options = ["--steps", "10", "--evaluate-every", "5"]
    grown = read_batches(0, 8, "--start-size", "2", *options)
    assert [digits for _, digits in grown] == [digits for _, digits in plain]
    for step, ((small, _), (pixels, _)) in enumerate(zip(grown, plain)):
        if step < 5:
            parts = pixels.reshape(-1, 2, 2, 2, 2)
            pixels = parts.mean(axis=(2, 4)).reshape(-1, 4, 1)
        np.testing.assert_allclose(small, pixels, rtol=1e-6)
    for step in (2, 5, 6):
        again = read_batches(step, 2, "--start-size", "2", *options)
        for found, wanted in zip(again, grown[step:]):
            np.testing.assert_array_equal(found[0], wanted[0])
            assert found[1] == wanted[1]


def test_bad_options():
    message = "--start-size: must divide .* 8 x 8. Received: 3"
    with pytest.raises(SystemExit, match=message):
        pixel_questions.main(["--start-size", "3"])
