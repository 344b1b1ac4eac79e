"""Text classification on a small made-up data set."""

import keras
import numpy as np
import pytest

from examples.common import datasets
from examples.common import text_encoding
from examples.receptive_field import classifiers
from examples.receptive_field import classify_text
from keras_seqmech import ExploreThenCommit
from keras_seqmech import PolicyGradientModel
from keras_seqmech import analysis
from tests.examples.files import read
from tests.examples.receptive_field import small_reviews
from tests.examples.receptive_field.small_reviews import BAD
from tests.examples.receptive_field.small_reviews import GOOD
from tests.examples.receptive_field.small_reviews import OTHER
from tests.examples.receptive_field.small_reviews import SMALL

pytestmark = pytest.mark.long


def options(folder, results, *more):
    data = ["--dataset", "mr", "--data-dir", str(folder)]
    return [*data, "--output", str(results), *SMALL, *more]


def parse(*more):
    return classify_text.parse(options(".", "results", *more))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Folder, options and table of two models that learn."""
    folder = tmp_path_factory.mktemp("data")
    small_reviews.write_mr(folder)
    vectors = {"1": GOOD, "-1": BAD, "0": OTHER}
    lines = [f"{w} {x} 1 0 0\n" for x, words in vectors.items() for w in words]
    (folder / "glove").mkdir()
    (folder / "glove" / "v.txt").write_text("".join(lines))
    more = "--epochs 4 --learning-rate 0.02 --dropout 0.1 --batch-size 27 "
    more += "--models rnn lstm+rf --seeds 1 --preset ours"
    asked = options(folder, folder / "new" / "results.csv", *more.split())
    return folder, asked, classify_text.main(asked)


@pytest.mark.slow
def test_rows_and_table(study):
    folder, asked, table = study
    rows = read(folder / "new" / "results.csv")
    cells = [[x.strip() for x in line.split("|")] for line in table.split("\n")]
    for name, row, cell in zip(
        ("rnn", "lstm+rf"), rows, cells[2:4], strict=True
    ):
        assert row["model"] == cell[1] == name
        assert float(cell[2]) == float(row["test_accuracy"])
    plain, field = rows
    assert plain["mean_field_size"] == plain["certain"] == ""
    assert float(field["test_accuracy"]) == 100
    assert 1 <= float(field["mean_field_size"]) <= 4
    assert 0 <= float(field["certain"]) <= 1
    assert abs(float(field["information"])) < np.log(4)
    # The one epoch whose penalties stay as they are, of both models.
    assert plain["best_epoch"] == field["best_epoch"] == "4"
    assert plain["epochs"] == field["epochs"] == "4"
    keys = classify_text.keys(classify_text.parse(asked))
    assert keys == [tuple(r[name] for name in classify_text.KEY) for r in rows]


@pytest.mark.slow
def test_nothing_is_done_twice(study, monkeypatch, capsys):
    _, asked, table = study
    monkeypatch.setattr(classify_text, "train_and_test", None)
    assert classify_text.main(asked) == table
    printed = capsys.readouterr().out
    assert printed.startswith("mr: 243 training, ")
    with pytest.raises(TypeError):
        classify_text.main([*asked, "--l2", "0"])


@pytest.mark.parametrize("name", ["lstm", "rnn+rf-", "rnn+rf", "lstm+rf-rl"])
def test_models_ignore_padding(name):
    """More padding changes nothing, and each has the parts it is named for."""
    args = parse()
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    outputs = []
    for length in (4, 7):
        keras.utils.set_random_seed(0)
        model = classifiers.build_model(name, matrix, length, 3, args)
        ids = np.zeros((2, length), dtype="int64")
        ids[0, :3], ids[1, :2] = (5, 8, 1), (3, 2)
        outputs.append(model(ids).numpy())
    np.testing.assert_allclose(*outputs, atol=1e-6)
    kernel = (5, 24) if name.startswith("lstm") else (5, 6)
    assert kernel in [tuple(weight.shape) for weight in model.weights]
    drawn = name == "lstm+rf-rl"
    trained = classifiers.trainable(name, model, args)
    assert isinstance(trained, PolicyGradientModel) == drawn
    if "+" in name:
        field = analysis.decisions(model, ids)["field"]
        assert field["probabilities"].shape[-1] == 1 + 3 * (name[-1] != "-")
        assert ("log_probability" in field) == drawn


def test_the_best_epoch_is_validated_and_the_test_part_held_out(monkeypatch):
    """Of two epochs, one answers always 1 and the next, worse, always 0."""
    seen, parts = {}, []
    for label, ids in enumerate([[2, 3, 0, 0], [3, 2, 2, 0], [2, 0, 0, 0]]):
        parts.append((np.array([ids] * 4), np.array([label % 2, 1, 1, 1])))
    data = text_encoding.Encoded(None, ["a", "b"], ("x", "y"), *parts)

    def fit(model, *inputs, validation_data, callbacks, **options):
        seen.update(train=inputs, validation=validation_data)
        model.evaluate(*validation_data, verbose=0)  # Makes the metrics.
        callbacks = keras.callbacks.CallbackList(callbacks, model=model)
        callbacks.on_train_begin()
        *weights, _ = model.get_weights()
        weights = [np.zeros_like(weight) for weight in weights]
        for epoch, (bias, score) in enumerate([([0, 9], 0.9), ([9, 0], 0.1)]):
            model.set_weights([*weights, np.array(bias)])
            callbacks.on_epoch_end(epoch, {"val_accuracy": score})
        callbacks.on_train_end()
        history = keras.callbacks.History()
        history.history = {"val_accuracy": [0.9, 0.1], "loss": [1, 1]}
        return history

    monkeypatch.setattr(keras.Model, "fit", fit)
    row = classify_text.train_and_test("rnn+rf-", 1, data, parse())
    for part in ("train", "validation"):
        for array, expected in zip(seen[part], getattr(data, part)):
            np.testing.assert_array_equal(array, expected)
    assert (row["test_accuracy"], row["validation_accuracy"]) == (75, 90)
    assert (row["best_epoch"], row["epochs"]) == (1, 2)
    assert row["mean_field_size"] == 1  # Padding does not count.


def test_all_models_of_a_preset_are_trained_alike(monkeypatch):
    """The same epochs, and the same rule that ends them and chooses one."""
    seen = []

    def fit(model, *inputs, epochs, callbacks, **options):
        stopping, *schedules = callbacks
        rule = epochs, stopping.start_from_epoch, stopping.patience
        seen.append((rule, [x.numbers["reading"].final for x in schedules]))
        history = keras.callbacks.History()
        history.history = {"val_accuracy": [0.0] * epochs, "loss": []}
        return history

    monkeypatch.setattr(keras.Model, "fit", fit)
    monkeypatch.setattr(keras.Model, "evaluate", lambda *_, **__: (0, 0))
    part = np.array([[2, 0, 0, 0]]), np.array([0])
    data = text_encoding.Encoded(None, ["a", "b"], ("x", "y"), *[part] * 3)
    for preset, first, reading in (
        ("paper", 0, []),
        ("ours", 6, [0.02]),
        ("no_penalty", 6, [0.0]),
    ):
        args = parse("--preset", preset, "--epochs", "10")
        for name, own in (("rnn", []), ("rnn+rf-", reading)):
            classify_text.train_and_test(name, 1, data, args)
            assert seen.pop() == ((10, first, args.patience), own)


def test_sizes_are_settled_after_exploration_and_penalty():
    schedule = ExploreThenCommit(
        entropy=(0.1, 0.0, 0.0, 0.45), reading=(0.0, 0.02, 0.3, 0.7)
    )
    epochs = [classify_text.settled_epoch(schedule, n) for n in (1, 5, 10)]
    assert epochs == [0, 4, 7]
    assert classify_text.settled_epoch(None, 10) == 0


@pytest.mark.slow
def test_each_fold_is_tested(study, monkeypatch):
    folder, _, _ = study
    seen = []

    def note(name, seed, data, args):
        seen.append(data.test[0].tolist())
        return {}

    monkeypatch.setattr(classify_text, "train_and_test", note)
    asked = options(folder, folder / "f.csv", "--models", "rnn", "--seeds", "1")
    for fold in (0, 3):
        classify_text.main([*asked, "--fold", str(fold)])
        data = datasets.load("mr", folder, fold)
        wanted = text_encoding.encode(data, 8).test[0]
        assert seen[-1] == wanted.tolist()
    assert seen[0] != seen[1]
