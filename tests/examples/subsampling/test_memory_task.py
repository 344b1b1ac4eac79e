"""The memory study, of tiny models: runs, resuming, table, figure."""

import json
import re
import types

import keras
import numpy as np
import pytest

from examples.common import locks
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
        padded = padded_by_loops(model, *test[:2])
        assert 100 * padded == pytest.approx(
            float(row["padded_accuracy"]), abs=0.01
        )
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


def test_rows_of_earlier_files_are_kept(study, tmp_path, monkeypatch):
    """They lack the accuracy that is padded, and their runs are done."""
    options, folder, _ = study
    rows = read(folder / "m.csv")
    fields = [x for x in memory_task.FIELDS if x != "padded_accuracy"]
    old = tmp_path / "m.csv"
    memory_task.results.write_rows(
        old, fields, [{name: row[name] for name in fields} for row in rows]
    )
    options = [*options, "--output", str(old)]
    options += [
        "--figure-length",
        "7",
        "--save-models",
        str(folder / "m-models"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(memory_task, "train_and_test", None)
        line = memory_task.main(options).split("\n")[2]
    length, accuracy, _, _, padded, *_ = line.split(" | ")
    assert (length, padded) == ("| 7", "") and float(accuracy) >= 0
    memory_task.main([*small(old, "--lengths", 7), "--emit", "after"])
    found = read(old)
    assert list(found[0]) == list(memory_task.FIELDS)
    assert [row["padded_accuracy"] for row in found[:2]] == ["", ""]
    assert float(found[2]["padded_accuracy"]) > 0


def test_settings_of_options_that_are_new_name_them_alone():
    def settings(*options):
        return memory_task.settings(memory_task.parse(options))

    plain = settings()
    assert plain == (
        "units=100 emission_bias=0.0 learning_rate=0.001 batch_size=100 "
        "curriculum=True warm_start=False steps=10000 target_accuracy=0.98 "
        "evaluate_every=100"
    )
    none = settings("--no-curriculum")
    assert none == plain.replace("curriculum=True", "curriculum=False")
    assert settings("--emit", "after") == f"{plain} emit=after"
    assert settings("--clip-norm", "1") == f"{plain} clip_norm=1.0"
    assert settings("--minutes", "3") == f"{plain} minutes=3.0"
    growing = plain.replace("curriculum=True", "curriculum=length")
    assert settings("--curriculum", "length") == (
        f"{growing} start_length=10 growth_accuracy=0.8"
    )


def test_gradients_are_clipped(tmp_path, monkeypatch):
    found = []
    compile_model = memory_model.compile_model

    def watch(model, *args):
        compile_model(model, *args)
        found.append(model.optimizer.clipnorm)

    monkeypatch.setattr(memory_model, "compile_model", watch)
    options = ["--lengths", 3, "--clip-norm", 0.5]
    memory_task.main(small(tmp_path / "m.csv", *options))
    assert found and set(found) == {0.5}


def test_sequences_grow_as_they_are_learned(tmp_path, monkeypatch):
    lengths = []
    dataset = memory.dataset

    def noted(length, *args, **kwargs):
        assert not kwargs["curriculum"]
        lengths.append((length, kwargs["start"]))
        return dataset(length, *args, **kwargs)

    monkeypatch.setattr(memory, "dataset", noted)
    options = small(
        tmp_path / "g.csv",
        *("--lengths", 9, "--curriculum", "length", "--start-length", 3),
        *("--growth-accuracy", 1e-6, "--steps", 8),
    )
    memory_task.main(options)
    assert lengths == [(3, 0), (6, 2), (9, 4)]
    (row,) = read(tmp_path / "g.csv")
    assert row["steps"] == "8"
    (path,) = (tmp_path / "g-models").glob("*.keras")
    model = keras.models.load_model(path)
    test = memory.examples(30, 9, memory_task.TEST_SEED)
    right = model.predict(test[0], verbose=0).argmax(axis=-1) == test[1]
    accuracy = 100 * right[test[2]].mean()
    assert accuracy == pytest.approx(float(row["accuracy"]), abs=0.01)
    assert [point["step"] for point in read(path.with_suffix(".csv"))] == [
        *("2", "4", "6", "8")
    ]


def test_a_run_that_was_killed_grows_on(tmp_path, monkeypatch):
    """Killed where sequences grow, and later: the same curve and weights."""
    curves, models = [], []
    for name, killed in (("whole", ()), ("killed", (1, 3))):
        saves, save = [], Progress._save

        def save_and_die(progress, saves=saves, killed=killed, save=save):
            save(progress)
            saves.append(progress.training_length())
            if len(saves) in killed:
                raise KeyboardInterrupt

        options = small(
            tmp_path / name / "m.csv",
            *("--lengths", 9, "--curriculum", "length", "--start-length", 3),
            *("--growth-accuracy", 0.34, "--steps", 10),
        )
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "_save", save_and_die)
            for _ in killed:
                with pytest.raises(KeyboardInterrupt):
                    memory_task.main(options)
            memory_task.main(options)
        assert len(saves) == 5 and len(set(saves)) > 1
        (path,) = (tmp_path / name / "m-models").glob("*.keras")
        curve = read(path.with_suffix(".csv"))
        curves.append([[*point.values()][:-1] for point in curve])
        models.append(keras.models.load_model(path).get_weights())
    assert curves[0] == curves[1]
    for a, b in zip(*models):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "options, accuracies, length",
    [
        (["--curriculum", "length"], [], 10),
        (["--curriculum", "length"], [0.79, 0.8, 0.5], 20),
        (["--curriculum", "length"], [0.8, 0.9], 40),
        (["--curriculum", "length"], [0.9] * 3, 50),
        (["--curriculum", "length", "--start-length", "60"], [], 50),
        (["--curriculum", "length", "--growth-accuracy", "0.9"], [0.8], 10),
        ([], [0.1, 0.9], 50),
    ],
)
def test_the_length_of_sequences(options, accuracies, length, tmp_path):
    args = memory_task.parse(options)
    progress = Progress(None, 50, args, tmp_path / "e", "")
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


def test_emission_is_where_the_option_says(tmp_path):
    options = small(tmp_path / "m.csv", "--lengths", 5, "--emit", "after")
    memory_task.main(options)
    (path,) = (tmp_path / "m-models").glob("*.keras")
    found = memory_model.probe(keras.models.load_model(path)).predict(
        memory.examples(9, 5)[0], verbose=0
    )
    assert np.ptp(found["emissions"][:, 0]) > 0


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
    assert "| 3 |  | > 98 |" in content and "nan" not in content
    assert not (tmp_path / "m.csv").exists()
    assert not (tmp_path / "m.png").exists()
    printed = capsys.readouterr().out
    assert "Left to other processes: 2 of 2 runs" in printed
    assert "No figure: the run of length 3 is left to another" in printed
    memory_task.main(options[:-4])
    assert [row["length"] for row in read(tmp_path / "m.csv")] == ["3", "5"]


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
    progress = Progress(None, 50, args, tmp_path / "e", "")
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
        (["--minutes", "0"], r"--minutes: must be .* \(0, inf\)"),
        (["--target-accuracy", "98"], r"--target-accuracy: .*\(0, 1\].*98"),
        (["--target-accuracy", "0"], r"--target-accuracy: .*\(0, 1\].*'0'"),
        (
            ["--warm-start", "--curriculum", "length"],
            "--warm-start: not with --curriculum length",
        ),
        (["--growth-accuracy", "0"], r"--growth-accuracy: .*\(0, 1\]"),
        (
            ["--growth-accuracy", "0.9"],
            "--growth-accuracy: needs --curriculum length. Received: 0.9",
        ),
        (
            ["--start-length", "20", "--curriculum", "outputs"],
            "--start-length: needs --curriculum length. Received: 20",
        ),
        (
            ["--no-curriculum", "--curriculum", "length"],
            "--curriculum: not allowed with argument --no-curriculum",
        ),
        (["--emit", "now"], "--emit: invalid choice"),
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
