"""The study of pixel-by-pixel questions, of tiny models."""

import keras
import numpy as np
import pytest

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


def test_runs(tmp_path):
    output, markdown = tmp_path / "q.csv", tmp_path / "tables" / "q.md"
    options = [*SMALL, "--output", str(output), "--markdown", str(markdown)]
    content = pixel_questions.main([*options, "--models", "lstm1", "fhe"])
    assert markdown.read_text() == content
    rows = read(output)
    kinds = [(row["task"], row["model"], row["estimator"]) for row in rows]
    assert kinds == [("digits", "lstm1", ""), ("digits", "fhe", "relaxed")]
    assert "| lstm1 | " in content and " | 97.3 | " in content
    _, (images, labels) = pixel_question.load_digits()
    asked, answers = pixel_question.examples(
        images[:40], labels[:40], pixel_questions.TEST_SEED
    )
    for row in rows:
        stem = experiments.stem([row[field] for field in experiments.KEY])
        model = keras.models.load_model(tmp_path / "q-models" / f"{stem}.keras")
        found = models.probe(model).predict(asked, verbose=0)
        right = found["logits"].argmax(axis=-1) == answers
        assert 100 * right.mean() == pytest.approx(
            float(row["accuracy"]), abs=0.01
        )
        if row["model"] == "fhe":
            assert 100 * found["gates"].mean() == pytest.approx(
                float(row["openness"]), abs=0.01
            )


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


def test_mnist(tmp_path):
    (tmp_path / "mnist").mkdir()
    generator = np.random.default_rng(0)
    images = generator.integers(256, size=(90, 3, 3)).astype("uint8")
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
    options += ["--models", "lstm1", "--data-dir", str(tmp_path)]
    pixel_questions.main(options)
    (row,) = read(output)
    assert row["task"] == "mnist" and row["steps"] == "10"


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


def test_bad_options(tmp_path, capsys):
    with pytest.raises(SystemExit):
        pixel_questions.parse(["--mnist"])
    assert "--mnist: needs --data-dir" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="mnist.npz"):
        pixel_questions.main(["--mnist", "--data-dir", str(tmp_path)])
