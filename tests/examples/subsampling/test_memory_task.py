"""The memory study, of tiny models: runs, resuming, table, figure."""

import json
import re
import types

import keras
import numpy as np
import pytest

from examples.subsampling import memory_model
from examples.subsampling import memory_task
from examples.subsampling.memory_progress import Progress
from keras_seqmech.tasks import memory
from tests.examples.csv_files import read

pytestmark = pytest.mark.long

SMALL = [
    *("--units", "4", "--batch-size", "8", "--test-size", "30"),
    *("--steps", "4", "--evaluate-every", "2", "--target-accuracy", "1"),
]


def small(output, *more):
    return [*SMALL, *map(str, ["--output", output, *more])]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Options, folder and table of a study."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("study")
    options = small(
        folder / "m.csv",
        *("--lengths", 7, 1, "--emission-bias", 0.5),
        *("--markdown", folder / "new" / "m.md"),
        *("--figure", folder / "new" / "m.png", "--figure-length", 7),
    )
    return options, folder, memory_task.main(options)


def test_rows_and_table(study):
    _, folder, content = study
    rows = read(folder / "m.csv")
    assert [(row["length"], row["seed"]) for row in rows] == [
        ("7", "0"),
        ("1", "0"),
    ]
    for row in rows:
        assert row["steps"] == "4" and row["steps_to_target"] == ""
        assert float(row["train_ms"]) > 0
        assert "emission_bias=0.5" in row["settings"]
    header, _, first, second = content.split("\n\n")[0].split("\n")
    assert "minibatches to 100 %" in header
    accuracy = float(rows[0]["accuracy"])
    assert first.startswith(f"| 7 | {accuracy:.2f} | > 98 |")
    assert second.startswith("| 1 |")
    assert (folder / "new" / "m.md").read_text() == content


def test_saved_models_give_the_accuracies(study):
    _, folder, _ = study
    for row in read(folder / "m.csv"):
        length = int(row["length"])
        test = memory.examples(30, length, memory_task.TEST_SEED)
        (path,) = (folder / "m-models").glob(f"memory-{length}-0-*.keras")
        model = keras.models.load_model(path)
        right = model.predict(test[0], verbose=0).argmax(axis=-1) == test[1]
        accuracy = 100 * right[test[2]].mean()
        assert accuracy == pytest.approx(float(row["accuracy"]), abs=0.01)
        whole = 100 * np.mean([r[m].all() for r, m in zip(right, test[2])])
        assert whole == pytest.approx(float(row["sequence_accuracy"]), abs=0.01)
        emissions = keras.Model(
            model.input, model.get_layer("emissions").output
        )
        emitted = emissions.predict(test[0], verbose=0).sum() / test[2].sum()
        assert 100 * emitted == pytest.approx(float(row["emitted"]), rel=1e-3)
        curve = read(path.with_suffix(".csv"))
        assert [point["step"] for point in curve] == ["2", "4"]
    files = sorted(path.suffix for path in (folder / "m-models").iterdir())
    assert files == [".csv", ".csv", ".keras", ".keras"]


def test_figure(study):
    options, folder, _ = study
    path = folder / "new" / "m.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    emission = memory_task.draw(memory_task.parse(options))
    assert emission.shape == (3, 7)
    assert not np.tril(emission[:, :3], -1).any() and emission[0, 0] > 0


def test_nothing_is_done_twice(study, monkeypatch):
    options, folder, content = study
    before = read(folder / "m.csv")

    def refuse(*args, **kwargs):
        raise AssertionError("trains")

    monkeypatch.setattr(memory_task, "train_and_test", refuse)
    assert memory_task.main(options) == content
    assert read(folder / "m.csv") == before
    with pytest.raises(AssertionError, match="trains"):
        memory_task.main([*options, "--no-curriculum"])


def test_a_run_that_was_killed_goes_on(study, tmp_path, monkeypatch):
    """What it learns is what a run learns that was not."""
    measure, tests = memory_model.measure, []

    def killed(*args):
        tests.append(args)
        if len(tests) == 2:
            raise KeyboardInterrupt
        return measure(*args)

    options = small(tmp_path / "m.csv", "--lengths", 7, "--emission-bias", 0.5)
    monkeypatch.setattr(memory_model, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        memory_task.main(options)
    assert not (tmp_path / "m.csv").exists()
    (state,) = (tmp_path / "m-models").glob("*.json")
    assert json.loads(state.read_text())["step"] == 2
    memory_task.main(options)
    # Two of the first attempt, one more of the curve, one at the end.
    assert len(tests) == 4
    rows, curves, models = [], [], []
    for folder in (study[1], tmp_path):
        row = read(folder / "m.csv")[0]
        rows.append({name: row[name] for name in ("accuracy", "steps")})
        (path,) = (folder / "m-models").glob("memory-7-*.keras")
        models.append(keras.models.load_model(path).get_weights())
        curve = read(path.with_suffix(".csv"))
        curves.append([(point["step"], point["accuracy"]) for point in curve])
    assert len(list((tmp_path / "m-models").iterdir())) == 2
    assert rows[0] == rows[1] and curves[0] == curves[1]
    for a, b in zip(*models):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_warm_start_takes_the_weights_of_the_length_before(tmp_path):
    options = small(tmp_path / "m.csv", "--lengths", 3, 5, "--warm-start")
    memory_task.main(options)
    args = memory_task.parse(options)
    started = [row["settings"] for row in read(tmp_path / "m.csv")]
    assert "warm_start= " in started[0] and "warm_start=3 " in started[1]
    models = {}
    for length in args.lengths:
        key = memory_task.run_key(length, 0, args)
        models[length] = keras.models.load_model(
            memory_task.model_path(key, args)
        )
        cold = memory_model.build(length, args.units)
        memory_task.start_warm(cold, key, args)
        models[f"start of {length}"] = cold
    learned = models[3].get_weights()
    for found, wanted in zip(models["start of 5"].get_weights(), learned):
        np.testing.assert_array_equal(found, wanted)
    assert not np.allclose(models["start of 3"].get_weights()[0], learned[0])
    # Four steps of Adam move no weight by more than four learning rates.
    for found, wanted in zip(models[5].get_weights(), learned):
        np.testing.assert_allclose(found, wanted, atol=4.1e-3)


def test_a_run_ends_when_its_accuracy_is_reached(tmp_path):
    options = ["--lengths", 6, "--target-accuracy", 1e-6]
    memory_task.main(small(tmp_path / "e.csv", *options))
    (row,) = read(tmp_path / "e.csv")
    assert row["steps"] == row["steps_to_target"] == "2"


@pytest.mark.parametrize(
    "step, accuracy, seconds, over",
    [
        (2, 0.5, 30.0, False),
        (4, 0.5, 30.0, True),
        (2, 0.8, 30.0, True),
        (2, 0.5, 60.0, True),
    ],
)
def test_what_ends_a_run(step, accuracy, seconds, over, tmp_path):
    options = ["--target-accuracy", 0.8, "--minutes", 1]
    args = memory_task.parse(small(tmp_path / "e.csv", *options))
    progress = Progress(None, args, tmp_path / "e", "")
    assert not progress.is_over()
    curve = [{"accuracy": 0.9}, {"accuracy": accuracy}]
    progress.state.update(step=step, seconds=seconds, curve=curve)
    assert progress.is_over() == over


def test_model_is_that_of_the_equations():
    """Equations 1 to 4 with loops, from the states of the LSTM."""
    length, units = 6, 5
    model = memory_model.build(length, units, emission_bias=0.7)
    assert model.get_layer("emission").get_weights()[1] == [np.float32(0.7)]
    symbols = memory.examples(4, length)[0]
    found = memory_model.probe(model).predict(symbols, verbose=0)
    states = keras.Model(model.input, model.get_layer("states").output)
    kernel, bias = model.get_layer("emission").get_weights()
    last_kernel, last_bias = model.get_layer("logits").get_weights()
    for row, s in enumerate(states.predict(symbols, verbose=0)):
        x = np.eye(3)[symbols[row]]
        e = []
        for t in range(length):
            before = np.zeros(units + 3)
            if t:
                before = np.concatenate([s[t - 1], x[t - 1]])
            e.append(1 / (1 + np.exp(-(before @ kernel[:, 0] + bias[0]))))
        np.testing.assert_allclose(found["emissions"][row], e, rtol=1e-5)
        p = np.zeros((3, length))
        for n in range(length):
            p[0, n] = e[n] * np.prod([1 - e[i] for i in range(n)])
            for m in range(1, 3):
                p[m, n] = e[n] * sum(
                    p[m - 1, j] * np.prod([1 - e[i] for i in range(j + 1, n)])
                    for j in range(n)
                )
        logits = p @ s @ last_kernel + last_bias
        np.testing.assert_allclose(found["logits"][row], logits, atol=1e-5)
        matrix = memory_model.emission_matrix(
            memory_model.probe(model), symbols[row]
        )
        np.testing.assert_allclose(matrix, p, atol=1e-6)


def test_loss_is_the_mean_of_the_outputs_that_count():
    model = memory_model.build(6, 4)
    memory_model.compile_model(model, 1e-3)
    data = memory.dataset(6, 16, batches=1, curriculum=True, seed=1)
    ((symbols, targets, weights),) = [
        [x.numpy() for x in batch] for batch in data
    ]
    counted = weights > 0
    assert 16 <= counted.sum() < memory.answers(symbols)[1].sum()
    logits = model.predict(symbols, verbose=0)
    right = np.take_along_axis(logits, targets[:, :, None], axis=2)[:, :, 0]
    losses = np.log(np.exp(logits).sum(axis=2)) - right
    loss, accuracy = model.evaluate(
        symbols, targets, sample_weight=weights, verbose=0
    )
    assert loss == pytest.approx(losses[counted].mean(), rel=1e-5)
    hits = logits.argmax(axis=2) == targets
    assert accuracy == pytest.approx(hits[counted].mean(), rel=1e-5)


def test_measure():
    """Of two and one outputs, two are right, and one whole sequence."""
    guesses = np.array([[0, 2, 1], [2, 1, 1]])
    found = {"logits": np.eye(3)[guesses], "emissions": np.full((2, 6), 0.5)}
    probed = types.SimpleNamespace(predict=lambda *args, **kwargs: found)
    targets = np.array([[0, 1, 0], [2, 0, 0]])
    mask = np.array([[True, True, False], [True, False, False]])
    symbols = np.zeros((2, 6), "int32")
    measured = memory_model.measure(probed, (symbols, targets, mask), 2)
    assert measured == pytest.approx(
        {"accuracy": 2 / 3, "sequence_accuracy": 1 / 2, "emitted": 2.0}
    )


def test_what_is_learned():
    """Of three symbols, any two in a row are a pair."""
    model = memory_model.build(3, 16)
    memory_model.compile_model(model, 0.02)
    data = memory.dataset(3, 64, curriculum=True)
    model.fit(data, steps_per_epoch=200, shuffle=False, verbose=0)
    test = memory.examples(500, 3, seed=9)
    probed = memory_model.probe(model)
    assert memory_model.measure(probed, test, 500)["accuracy"] > 0.95


@pytest.mark.parametrize(
    "options, message",
    [
        (["--steps", "15", "--evaluate-every", "10"], "--steps: .* multiple"),
        (["--minutes", "0"], "--minutes: must be above 0"),
        (["--target-accuracy", "98"], "--target-accuracy: .*at most 1.*98"),
        (["--target-accuracy", "0"], "--target-accuracy: must be above 0"),
        (["--lengths", "0"], "--lengths: must be an integer of at least 1"),
        (
            ["--lengths", "9", "--figure", "a.png"],
            r"--figure-length: must be one of --lengths, \[9\].*50",
        ),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(SystemExit):
        memory_task.parse(options)
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
