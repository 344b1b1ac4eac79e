"""The study of pixel-by-pixel questions, of tiny models."""

import keras
import numpy as np
import pytest

from examples.common import interleaved
from examples.focused import experiments
from examples.focused import models
from examples.focused import pixel_questions
from keras_seqmech.tasks import pixel_question
from tests.examples.csv_files import read

pytest.importorskip("sklearn", reason="needs keras_seqmech[examples]")

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


def check(row, output, args, test):
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


def test_digits(tmp_path):
    output = tmp_path / "q.csv"
    options = [*SMALL, "--output", str(output), "--models", "lstm1", "fhe"]
    content = pixel_questions.main(options)
    lstm, gated = read(output)
    assert (lstm["task"], lstm["estimator"]) == ("digits", "")
    assert gated["estimator"] == "relaxed"
    assert f"| lstm1 |  |  | {float(lstm['accuracy']):.4g} |" in content
    _, test = pixel_question.load_digits()
    args = pixel_questions.parse(options)
    assert (args.sparsity_weight, args.indecision_weight) == (1, 2)
    for row in (lstm, gated):
        check(row, output, args, test)


def test_what_is_read_is_compared_with_the_question():
    args = pixel_questions.parse(["--units", "6"])
    model = pixel_questions.build("lstm1", "", 64, args)
    fit, read, query = (
        model.get_layer(name).output for name in ("fit", "attention", "query")
    )
    parts = keras.Model(model.input, [fit, read[0], query])
    asked = {"pixels": np.random.rand(5, 64, 1), "digit": np.arange(5)}
    fit, read, query = parts.predict(asked, verbose=0)
    np.testing.assert_allclose(fit, read * query, rtol=1e-6)


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
    options = [*SMALL, "--output", str(output), "--mnist", "--models", "fhe"]
    options += ["--data-dir", str(tmp_path), "--start-size", "2"]
    timed, median_ms = [], interleaved.median_ms

    def watch(functions, repeats):
        (function,) = functions
        timed.append(function.args[0]["pixels"].shape)
        return median_ms(functions, repeats)

    monkeypatch.setattr(interleaved, "median_ms", watch)
    pixel_questions.main(options)
    # The time is that of whole images, not of the small ones at first.
    assert timed == [(16, 16, 1)]
    (row,) = read(output)
    assert row["task"] == "mnist" and row["steps"] == "10"
    assert "start_size=2" in row["settings"]
    _, test = pixel_question.load_mnist(tmp_path)
    check(row, output, pixel_questions.parse(options), test)


def test_batches_go_on_where_they_were():
    images = np.arange(20.0).reshape(20, 1, 1)
    args = pixel_questions.parse(["--batch-size", "8"])

    def read_batches(step, count):
        data = pixel_questions.batches(
            images, np.arange(20) % 10, args, seed=3, step=step
        )
        return [
            (asked["pixels"].numpy().ravel().tolist(), answer.numpy().tolist())
            for asked, answer in data.take(count)
        ]

    whole = read_batches(0, 8)
    assert [len(answers) for _, answers in whole] == [8, 8, 4, 8, 8, 4, 8, 8]
    for step in (1, 3, 5):
        assert read_batches(step, 3) == whole[step : step + 3]


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


def test_bad_options(tmp_path, capsys):
    message = "--start-size: must divide .* 8 x 8. Received: 3"
    with pytest.raises(SystemExit, match=message):
        pixel_questions.main(["--start-size", "3"])
    with pytest.raises(SystemExit):
        pixel_questions.parse(["--mnist"])
    assert "--mnist: needs --data-dir" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="mnist.npz"):
        pixel_questions.main(["--mnist", "--data-dir", str(tmp_path)])
