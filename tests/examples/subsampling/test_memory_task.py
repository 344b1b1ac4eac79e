"""The memory study, of tiny models: runs, resuming, table, figure."""

import re

import keras
import numpy as np
import pytest

from examples.common import locks
from examples.subsampling import memory_model
from examples.subsampling import memory_task
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
        *("--figure", folder / "new" / "m.png", "--figure-length", 7),
    )
    return options, folder, memory_task.main(options)


def padded_by_loops(model, symbols, targets):
    """Accuracy over T outputs, from the states and emissions of a model."""
    parts = [model.get_layer(name).output for name in ("states", "emissions")]
    states, e = keras.Model(model.input, parts).predict(symbols, verbose=0)
    kernel, bias = model.get_layer("logits").get_weights()
    length = symbols.shape[1]
    right = 0
    for row in range(len(symbols)):
        # Probabilities of 0, 1, ... emissions before each step.
        counts = np.eye(length + 1)[0]
        outputs = np.zeros((length, states.shape[-1]))
        for state, p in zip(states[row], e[row]):
            outputs += np.outer(p * counts[:-1], state)
            counts = (1 - p) * counts + p * np.roll(counts, 1)
        found = (outputs @ kernel + bias).argmax(axis=1)
        wanted = np.zeros(length)
        wanted[: targets.shape[1]] = targets[row]
        right += (found == wanted).sum()
    return right / symbols.size


def test_saved_models_give_what_rows_and_table_say(study):
    _, folder, content = study
    rows = read(folder / "m.csv")
    assert [(r["length"], r["seed"]) for r in rows] == [("7", "0"), ("1", "0")]
    for row in rows:
        assert row["steps"] == "4" and row["steps_to_target"] == ""
        assert float(row["train_ms"]) > 0
        assert "emission_bias=0.5" in row["settings"]
        length = int(row["length"])
        assert f"| {length} | {float(row['accuracy']):.4g} |" in content
        test = memory.examples(30, length, memory_task.TEST_SEED)
        (path,) = (folder / "m-models").glob(f"memory-{length}-0-*.keras")
        model = keras.models.load_model(path)
        right = model.predict(test[0], verbose=0).argmax(axis=-1) == test[1]
        emissions = keras.Model(
            model.input, model.get_layer("emissions").output
        )
        emitted = emissions.predict(test[0], verbose=0).sum() / test[2].sum()
        for name, share in (
            ("accuracy", right[test[2]].mean()),
            ("padded_accuracy", padded_by_loops(model, *test[:2])),
            (
                "sequence_accuracy",
                np.mean([r[m].all() for r, m in zip(right, test[2])]),
            ),
            ("emitted", emitted),
        ):
            wanted = pytest.approx(float(row[name]), rel=1e-3, abs=0.01)
            assert 100 * share == wanted
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
        memory_task.main([*options, "--emit", "after"])


def test_a_run_that_was_killed_grows_on(tmp_path, monkeypatch):
    """Killed in a test, where sequences grow, and later: the same weights."""
    monkeypatch.setattr(memory_task, "START_LENGTH", 3)
    curves, models = [], []
    for name, killed in (("whole", ()), ("killed", (1, 3))):
        saves, save = [], memory_task.Progress._save

        def save_and_die(progress, saves=saves, killed=killed, save=save):
            save(progress)
            saves.append(progress.training_length())
            if len(saves) in killed:
                raise KeyboardInterrupt

        def die(*args):
            raise KeyboardInterrupt

        options = small(
            tmp_path / name / "m.csv",
            *("--lengths", 9, "--curriculum", "length"),
            *("--growth-accuracy", 0.34, "--steps", 10, "--clip-norm", 0.5),
        )
        if killed:
            with monkeypatch.context() as patch:
                patch.setattr(memory_model, "measure", die)
                with pytest.raises(KeyboardInterrupt):
                    memory_task.main(options)
        with monkeypatch.context() as patch:
            patch.setattr(memory_task.Progress, "_save", save_and_die)
            for _ in killed:
                with pytest.raises(KeyboardInterrupt):
                    memory_task.main(options)
            memory_task.main(options)
        assert len(saves) == 5 and len(set(saves)) > 1
        (path,) = (tmp_path / name / "m-models").glob("*.keras")
        curve = read(path.with_suffix(".csv"))
        curves.append([[*point.values()][:-1] for point in curve])
        model = keras.models.load_model(path)
        assert model.optimizer.clipnorm == 0.5
        models.append(model.get_weights())
        assert len(list(path.parent.iterdir())) == 2
    assert curves[0] == curves[1]
    for a, b in zip(*models):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "options, accuracies, length",
    [
        (["--curriculum", "length"], [], 10),
        (["--curriculum", "length"], [0.79, 0.8, 0.5], 20),
        (["--curriculum", "length"], [0.9] * 3, 50),
        (["--curriculum", "length", "--growth-accuracy", "0.9"], [0.8], 10),
        ([], [0.1, 0.9], 50),
    ],
)
def test_the_length_of_sequences(options, accuracies, length, tmp_path):
    args = memory_task.parse(options)
    progress = memory_task.Progress(None, 50, args, tmp_path / "e", "")
    progress.state["curve"] = [{"train_accuracy": x} for x in accuracies]
    assert progress.training_length() == length


def test_shorter_batches_have_the_places_of_the_whole():
    args = memory_task.parse(["--curriculum", "length", "--batch-size", "8"])
    (batch,) = memory_task.batches(5, 12, 3, 1, args).take(1)
    symbols, targets, weights = (x.numpy() for x in batch)
    assert symbols.shape == (8, 5) and weights.shape == (8, 6)
    wanted, mask = memory.answers(symbols)
    np.testing.assert_array_equal(targets[:, :2], wanted)
    np.testing.assert_array_equal(weights[:, :2], mask)
    assert not weights[:, 2:].any() and not targets[:, 2:].any()


def test_emission_after_the_symbol_is_that_of_a_step_later():
    """Of the same weights: what decides is not moved by a step."""
    before, after = (
        memory_model.build(6, 5, emission_bias=0.7, emit=emit)
        for emit in memory_model.EMIT
    )
    after.set_weights(before.get_weights())
    symbols = memory.examples(4, 6)[0]
    first, second = (
        memory_model.probe(model).predict(symbols, verbose=0)["emissions"]
        for model in (before, after)
    )
    np.testing.assert_allclose(second[:, :-1], first[:, 1:], rtol=1e-5)
    assert np.ptp(first[:, 0]) == 0 and np.ptp(second[:, 0]) > 0


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


def test_what_another_process_does_is_waited_for(tmp_path, capsys):
    """Its model is there neither to start from nor to draw."""
    options = small(
        tmp_path / "m.csv",
        *("--lengths", 3, 5, "--warm-start"),
        *("--figure", tmp_path / "m.png", "--figure-length", 3),
    )
    args = memory_task.parse(options)
    file = memory_task.results.ResultsFile(
        args.output, memory_task.FIELDS, memory_task.KEY
    )
    with locks.claimed(file.claim_of(memory_task.run_key(3, 0, args))):
        content = memory_task.main(options)
    assert "| 3 |  |" in content and "nan" not in content
    assert not (tmp_path / "m.csv").exists()
    assert not (tmp_path / "m.png").exists()
    printed = capsys.readouterr().out
    assert "Left to other processes: 2 of 2 runs" in printed
    assert "No figure: its run is left to another process" in printed
    memory_task.main(options[:-4])
    assert [row["length"] for row in read(tmp_path / "m.csv")] == ["3", "5"]


def test_a_run_ends_when_its_accuracy_is_reached(tmp_path):
    options = ["--lengths", 6, "--target-accuracy", 1e-6, "--emit", "after"]
    memory_task.main(small(tmp_path / "e.csv", *options))
    (row,) = read(tmp_path / "e.csv")
    assert row["steps"] == row["steps_to_target"] == "2"
    (path,) = (tmp_path / "e-models").glob("*.keras")
    found = memory_model.probe(keras.models.load_model(path)).predict(
        memory.examples(9, 6)[0], verbose=0
    )
    # Before its symbol is seen, the first step is emitted equally often.
    assert np.ptp(found["emissions"][:, 0]) > 0


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
    memory_model.compile_model(model)
    data = memory.dataset(6, 16, curriculum=True, seed=1).take(1)
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
        (["--target-accuracy", "98"], r"--target-accuracy: .*\(0, 1\].*98"),
        (
            ["--warm-start", "--curriculum", "length"],
            "--warm-start: not with --curriculum length",
        ),
        (
            ["--growth-accuracy", "0.9"],
            "--growth-accuracy: needs --curriculum length. Received: 0.9",
        ),
        (["--emit", "now"], "--emit: invalid choice"),
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
