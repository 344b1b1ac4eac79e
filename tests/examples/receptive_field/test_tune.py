"""The example that searches receptive fields."""

import numpy as np
import pytest

from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from examples.receptive_field import tune
from tests.examples.files import write_lines
from tests.examples.receptive_field import tiny_search

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore:.*(currentThread|getName):DeprecationWarning"
    ),
]


def rows(table):
    header, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
    )
    return [dict(zip(header, line)) for line in lines]


@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
@pytest.mark.parametrize(
    "tuner, count",
    [
        ("random", 5),
        pytest.param("bayesian", 5, marks=pytest.mark.slow),
        ("hyperband", 2),
    ],
)
def test_each_tuner_searches_draws_and_continues(
    tmp_path, monkeypatch, tuner, count
):
    monkeypatch.setattr(tune, "Segmentation", tiny_search.Tiny)
    options = "--epochs 2 --verbose 0 --schedules fixed linear --tuner"
    options = ["segmentation", *options.split(), tuner, "--trials", str(count)]
    options += ["--output", str(tmp_path / "search")]
    table = tune.main(options)
    found = rows(table)
    assert len(found) == count
    for row in found:
        size = float(row["validation_f1"]) + float(row["temperature"])
        # Columns that are the same in all trials are not shown.
        shown = int(row.get("max_size", round(size)))
        assert size == pytest.approx(shown, abs=0.01)
        assert row["status"] == "completed"
        annealed = row["temperature_schedule"] == "linear"
        assert bool(row["final_temperature"]) == annealed
    scores = [float(row["validation_f1"]) for row in found]
    assert scores == sorted(scores, reverse=True)
    folder = tmp_path / "search"
    assert (folder / "results.md").read_text() == table + "\n"
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    if tuner != "random":
        return
    # Finished trials are not repeated.
    monkeypatch.setattr(tiny_search.Tiny, "scores", None)
    assert tune.main(options) == table


def test_segmentation(tmp_path, monkeypatch):
    """Scores of the model that was trained, by hand; without graphs."""
    pku, built = [["中国", "人民", "的", "新年"]], []
    path = tmp_path / "cws" / "pku_test.jsonl.gz"
    write_lines(path, [{"words": pku[0]}])
    compiled = taggers.trainable

    def compile_eagerly(*args):
        built.append(compiled(*args))
        built[-1].run_eagerly = True
        return built[-1]

    monkeypatch.setattr(taggers, "trainable", compile_eagerly)
    options = "--units 4 --embedding-size 3 --cell rnn --no-jit-compile "
    options += "--verbose 0 --max-size 1 2 --epochs 1 --trials 1 --sentences 4 "
    options += f"--batch-size 8 --data-dir {tmp_path} --output {tmp_path}/s"
    (row,) = rows(tune.main(["segmentation", *options.split()]))
    assert row["status"] == "completed"
    assert 1 <= float(row["mean_size"]) <= 2
    train, last = (part[:4] for part in segmentation.people_daily())
    vocabulary = segmentation.character_vocabulary(train)
    for name, sentences in (("validation_f1", last), ("pku_f1", pku)):
        expected = f1_by_hand(built[-1], sentences, vocabulary)
        assert float(row[name]) == pytest.approx(expected, abs=1e-4)


def f1_by_hand(model, sentences, vocabulary):
    """Of the words that the most probable tags of a model mark."""

    def spans(words):
        ends = np.cumsum([len(word) for word in words]).tolist()
        return set(zip([0, *ends], ends))

    right = total = 0
    for words in sentences:
        tags = ""
        for piece in segmentation.split_text("".join(words), 64):
            (ids,) = taggers.encode([piece], vocabulary)
            p = np.asarray(model(ids[None]))[0]
            tags += "".join(segmentation.TAGS[i] for i in p.argmax(axis=-1))
        own = spans(segmentation.join_words("".join(words), tags))
        right += len(own & spans(words))
        total += len(words) + len(own)
    return 2 * right / total
