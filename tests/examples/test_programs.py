"""Each program whose runs are those of studies, on small data."""

import dataclasses
import shlex

import numpy as np
import pytest

from examples.study.programs import PROGRAMS
from examples.study.records import STUDIES
from tests.examples.files import write_lines
from tests.examples.pooling import small_study
from tests.examples.receptive_field import small_reviews
from tests.examples.titles import small_titles

REVIEWS = "--data-dir {data} --units 6 --length 8 --batch-size 81 --preset ours"
POOLED = "--data-dir {data} --units 4 --batch-size 8 --sizes 16 --epochs 2 "
POOLED += "--settings mid --max-length 20 --save-models {out}/models"
ASKED = "--batch-size 8 --units 6 --test-size 40 --steps 4 --evaluate-every 2 "
ASKED += "--models lstm2 fhe"
TRAINED = "--units 5 --epochs 1 --train-size 30 --batch-size 10"
SMALL = {
    "classify_text": f"{REVIEWS} --dataset mr --epochs 2 --models rnn rnn+rf",
    "field_figures": f"{REVIEWS} --datasets mr --epochs 2 --figures {{out}}",
    "segment_words": "--data-dir {data} --corpus msr --models lstm+rf-rl "
    "--epochs 1 --units 3 --batch-size 3 --preset ours",
    "delay": "--tasks code --texts 70 --test-texts 30 --epochs 1 --units 4 "
    "--models window look_ahead --settings 2",
    "look_ahead": f"{TRAINED} --cells gru --keys told --size-from field",
    "compare": f"{POOLED} --models bilstm keras_att --vanishing-every 1",
    "early": "--epochs 1 --models fixed learned+states",
    "learnability": f"{POOLED} --methods lstm dropout",
    "few_labels": "--data-dir {data} --inputs glove --units 2 --epochs 1 "
    "--models maxatt logistic",
    "picking": f"{ASKED} --length 6 --test-lengths 9 --export-dir {{out}}/e",
    "pixels": f"{ASKED} --mnist --data-dir {{data}} --start-size 2",
    "lookup": f"{ASKED} --length 12 --pairs 4",
    "votes": "--units 5 --epochs 1 --train-size 30 --weights 0.1 "
    "--models best gate 'one subsample'",
    "skipping": f"{TRAINED} --lower-units 3 --length 8 --test-size 20",
    "memory": "--units 4 --batch-size 8 --test-size 30 --steps 4 "
    "--evaluate-every 2 --curriculum length --lengths 12 --figure-length 12 "
    "--figure {out}/memory.png",
    "shorten": f"{TRAINED} --test-size 20 --stride 16 --methods expectation "
    "convolution integrate",
    "pronounce": "--data-dir {data} --texts 12 --test-texts 4 --epochs 1 "
    "--units 4",
    "titles": "--data-dir {data} --units 4 --embedding-size 4 --epochs 2 "
    "--train-size 40 --models logistic_regression 'words last, padding read' "
    "'characters last, truncated'",
}
# What programs write beside their rows.
FILES = {
    "field_figures": ["steps_mr.png", "words_mr.png"],
    "compare": ["models/16-mid-bilstm-0-*.json", "rows-models/*.csv"],
    "learnability": ["models/16-mid-dropout-0-*.keras"],
    "picking": ["rows-lengths.csv", "rows-models/*.keras", "e/1"],
    "memory": ["memory.png", "rows-models/*.keras"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of small data sets."""
    folder = tmp_path_factory.mktemp("data")
    small_reviews.write_mr(folder)
    small_study.write_imdb(folder)
    small_titles.write(folder)
    words = [{"words": ["甲", x + x]} for x in "一二三四五六七八九十"]
    write_lines(folder / "cws" / "msr.jsonl.gz", words)
    spoken = ["abcdefghijk"[:n] + x for n in (6, 11) for x in "abcdefgh"]
    sounds = [{"word": x, "sounds": [*x.upper()][1:]} for x in spoken]
    write_lines(folder / "cmudict" / "all.jsonl.gz", sounds)
    images = np.random.default_rng(0).integers(256, size=(90, 4, 4))
    labels = np.arange(90) % 10
    parts = {"x_train": images, "y_train": labels}
    (folder / "mnist").mkdir()
    np.savez(
        folder / "mnist" / "mnist.npz", **parts, x_test=images, y_test=labels
    )
    return folder


@pytest.mark.long
# A few steps decide nothing.
@pytest.mark.filterwarnings("ignore:The decisions of layer 'encoder'")
@pytest.mark.parametrize("name", SMALL)
def test_rows_are_whole_and_done_once(name, data, tmp_path):
    program = PROGRAMS[name]
    options = SMALL[name].format(data=data, out=tmp_path)
    options = [*shlex.split(options), "--seeds", "0"]
    rows = program.run(options, tmp_path)
    study = next(x for x in STUDIES.values() if x.program is program)
    first = study.columns[0]
    assert all(row[first.name] or row.get(first.otherwise) for row in rows)
    for column in study.columns:
        found = [row[column.name] for row in rows]
        assert all(np.isfinite(float(x)) for x in found if x)
    for file in FILES.get(name, ()):
        assert [*tmp_path.glob(file)], file
    assert not [x for x in tmp_path.glob("rows-models/*") if x.is_dir()]
    done = dataclasses.replace(program.record, run=None, load=None)
    done.main([*options, "--output", str(tmp_path / "rows.csv")])
    assert program.read(tmp_path / "rows.csv") == rows


def test_all_programs_are_run():
    """`answers` and `sentences` in tests of their own."""
    folds = {"classify_folds"}
    assert {*PROGRAMS} == {*SMALL, "answers", "sentences"} | folds


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("segment_words", "--corpus msr", "--data-dir: must be given"),
        ("pixels", "--mnist", "--data-dir: must be given"),
        (
            "picking",
            "--preset explored --openness-target 0.1",
            "all open gates",
        ),
        ("shorten", "--data noisy", "--data-dir: must be given"),
    ],
)
def test_options_that_do_not_fit_are_refused(name, options, message, capsys):
    with pytest.raises(SystemExit):
        PROGRAMS[name].record.parse(options.split())
    assert message in capsys.readouterr().err
