"""The memory study, of tiny models: runs, resuming, table, figure."""

import keras
import numpy as np
import pytest

from examples.subsampling import memory_task
from examples.tasks import memory
from tests.examples.files import read

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
    folder = tmp_path_factory.mktemp("study")
    options = small(
        folder / "m.csv",
        *("--lengths", 5, 7, "--emission-bias", 0.5),
        *("--figure", folder / "new" / "m.png", "--figure-length", 7),
    )
    return options, folder, memory_task.main(options)


def saved(options):
    """Models of a study by length."""
    args = memory_task.parse(options)
    return {
        length: keras.models.load_model(memory_task.model_path(length, 0, args))
        for length in args.lengths
    }


def emission(e, length):
    """p(y_m = s_n) by the products of equations 1 and 2."""
    p = np.zeros((length, length))
    for n in range(length):
        p[0, n] = e[n] * np.prod(1 - e[:n])
        for m in range(1, length):
            p[m, n] = e[n] * sum(
                p[m - 1, j] * np.prod(1 - e[j + 1 : n]) for j in range(n)
            )
    return p


@pytest.mark.slow
def test_saved_models_give_what_rows_and_table_say(study):
    options, folder, content = study
    models, rows = saved(options), read(folder / "m.csv")
    assert [row["length"] for row in rows] == ["5", "7"]
    for row, (length, model) in zip(rows, models.items(), strict=True):
        assert row["steps"] == "4" and row["steps_to_target"] == ""
        assert float(row["train_ms"]) > 0
        assert "emission_bias=0.5" in row["settings"]
        assert f"| {length} | {float(row['accuracy']):.4g} |" in content
        symbols, targets, mask = memory.examples(
            30, length, memory_task.TEST_SEED
        )
        right = model.predict(symbols, verbose=0).argmax(axis=-1) == targets
        parts = [model.get_layer(x).output for x in ("states", "emissions")]
        states, e = keras.Model(model.input, parts).predict(symbols, verbose=0)
        kernel, bias = model.get_layer("logits").get_weights()
        outputs = [emission(p, length) @ s for p, s in zip(e, states)]
        found = (np.stack(outputs) @ kernel + bias).argmax(axis=-1)
        padded = np.zeros_like(symbols)
        padded[:, : targets.shape[1]] = targets
        for name, share in (
            ("accuracy", right[mask].mean()),
            ("padded_accuracy", (found == padded).mean()),
            (
                "sequence_accuracy",
                np.mean([r[m].all() for r, m in zip(right, mask)]),
            ),
            ("emitted", e.sum() / mask.sum()),
        ):
            wanted = pytest.approx(float(row[name]), rel=1e-3, abs=0.01)
            assert 100 * share == wanted
    files = sorted(path.suffix for path in (folder / "m-models").iterdir())
    assert files == sorted(2 * [".claim", ".keras"])
    picture = (folder / "new" / "m.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


@pytest.mark.slow
def test_nothing_is_done_twice(study, monkeypatch):
    options, folder, content = study
    before = read(folder / "m.csv")
    monkeypatch.setattr(memory_task, "train_and_test", None)
    assert memory_task.main(options) == content
    assert read(folder / "m.csv") == before
    with pytest.raises(TypeError):
        memory_task.main([*options, "--emit", "after"])


@pytest.mark.slow
def test_a_run_that_was_killed_grows_on(tmp_path, monkeypatch):
    """Killed in a test, where sequences grow, and later: the same weights."""
    monkeypatch.setattr(memory_task, "START_LENGTH", 3)
    rows, weights = [], []
    for name, kills in (("whole", []), ("killed", [1, 2, 4])):
        lengths, grow = [], memory_task.batches_of

        def note(length, *args, lengths=lengths, grow=grow):
            lengths.append(length)
            return grow(length, *args)

        tests, measure = iter(range(1, 99)), memory_task.measure

        def measure_and_die(*args, tests=tests, kills=kills, measure=measure):
            if next(tests) in kills:
                raise KeyboardInterrupt
            return measure(*args)

        options = small(
            tmp_path / name / "m.csv",
            *("--lengths", 9, "--curriculum", "length"),
            *("--growth-accuracy", 0.34, "--steps", 10, "--clip-norm", 0.5),
        )
        with monkeypatch.context() as patch:
            patch.setattr(memory_task, "measure", measure_and_die)
            patch.setattr(memory_task, "batches_of", note)
            for _ in kills:
                with pytest.raises(SystemExit):
                    memory_task.main(options)
            memory_task.main(options)
        assert len(set(lengths)) > 1
        (model,) = saved(options).values()
        assert model.optimizer.clipnorm == 0.5
        weights.append(model.get_weights())
        (row,) = read(tmp_path / name / "m.csv")
        rows.append({x: row[x] for x in ("steps", "accuracy", "emitted")})
    assert rows[0] == rows[1] and rows[0]["steps"] == "10"
    for a, b in zip(*weights):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_the_length_of_sequences():
    grow = ["--curriculum", "length"]
    for options, accuracies, length in (
        (grow, [], 10),
        (grow, [0.79, 0.8, 0.5], 20),
        (grow, [0.9] * 3, 50),
        ([*grow, "--growth-accuracy", "0.9"], [0.8], 10),
        ([], [0.1, 0.9], 50),
    ):
        args = memory_task.parse(options)
        curve = [{"train_accuracy": x} for x in accuracies]
        assert memory_task.training_length(curve, 50, args) == length


def test_shorter_batches_have_the_places_of_the_whole():
    args = memory_task.parse(["--curriculum", "length", "--batch-size", "8"])
    (batch,) = memory_task.batches_of(5, 12, 3, 1, args).take(1)
    symbols, targets, weights = (x.numpy() for x in batch)
    assert symbols.shape == (8, 5) and weights.shape == (8, 6)
    wanted, mask = memory.answers(symbols)
    np.testing.assert_array_equal(targets[:, :2], wanted)
    np.testing.assert_array_equal(weights[:, :2], mask)
    assert not weights[:, 2:].any() and not targets[:, 2:].any()


@pytest.mark.parametrize("curriculum", memory_task.CURRICULA)
def test_all_outputs_are_learned(curriculum):
    """T of them, zeros after the last real one; a batch is that of its step."""
    args = memory_task.parse(
        ["--outputs", "all", "--curriculum", curriculum, "--batch-size", "8"]
    )

    def read(step, count):
        data = memory_task.batches_of(5, 12, 3, step, args).take(count)
        return [[x.numpy() for x in batch] for batch in data]

    first, batches = read(0, 30), read(1, 29)
    counts = set()
    for (symbols, targets, weights), other in zip(first[1:], batches):
        for found, wanted in zip(other, (symbols, targets, weights)):
            np.testing.assert_array_equal(found, wanted)
        answers, _ = memory.answers(symbols)
        np.testing.assert_array_equal(targets[:, :2], answers)
        assert weights.shape == targets.shape == (8, 12)
        assert not targets[:, 2:].any()
        (count,) = {*weights.sum(axis=1)}
        assert (weights[0] == (np.arange(12) < count)).all()
        counts.add(int(count))
    assert counts == ({*range(1, 6)} if curriculum == "outputs" else {5})


def test_a_run_ends_when_its_accuracy_is_reached(tmp_path):
    options = ["--lengths", 6, "--target-accuracy", 1e-6, "--emit", "after"]
    options += ["--outputs", "all"]
    memory_task.main(small(tmp_path / "e.csv", *options))
    (row,) = read(tmp_path / "e.csv")
    assert row["steps"] == row["steps_to_target"] == "2"
    (model,) = saved(small(tmp_path / "e.csv", *options)).values()
    assert model.output.shape == (None, 6, 3)


def test_model_is_that_of_the_equations():
    """Equations 1 to 4 with loops, from the states of the LSTM."""
    length, units = 6, 5
    symbols = memory.examples(4, length)[0]
    for emit in memory_task.EMIT:
        model = memory_task.build(length, units, 0.7, emit)
        probed = memory_task.probe(model)
        kernel, bias = model.get_layer("emission").get_weights()
        assert bias == [np.float32(0.7)]
        found = probed.predict(symbols, verbose=0)
        states = keras.Model(model.input, model.get_layer("states").output)
        last_kernel, last_bias = model.get_layer("logits").get_weights()
        for row, s in enumerate(states.predict(symbols, verbose=0)):
            read = np.concatenate([s, np.eye(3)[symbols[row]]], axis=1)
            if emit == "before":
                read = np.concatenate([np.zeros((1, units + 3)), read[:-1]])
            e = 1 / (1 + np.exp(-(read @ kernel[:, 0] + bias[0])))
            np.testing.assert_allclose(found["emissions"][row], e, rtol=1e-5)
            p = emission(e, length)[:3]
            logits = p @ s @ last_kernel + last_bias
            np.testing.assert_allclose(found["logits"][row], logits, atol=1e-5)
            matrix = memory_task.emission_matrix(probed, symbols[row])
            np.testing.assert_allclose(matrix, p, atol=1e-6)


def test_loss_is_the_mean_of_the_outputs_that_count():
    model = memory_task.build(6, 4)
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
    model = memory_task.build(3, 16, learning_rate=0.02)
    data = memory.dataset(3, 64, curriculum=True)
    model.fit(data, steps_per_epoch=200, shuffle=False, verbose=0)
    test = memory.examples(500, 3, seed=9)
    probed = memory_task.probe(model)
    assert memory_task.measure(probed, test, 500)["accuracy"] > 0.95


def test_what_does_not_fit_is_refused(capsys):
    for options, message in (
        ("--steps 15 --evaluate-every 10", "--steps: must be a multiple"),
        ("--lengths 9 --figure a.png", "--figure-length: must be one of [9]"),
    ):
        with pytest.raises(SystemExit):
            memory_task.parse(options.split())
        assert message in capsys.readouterr().err
