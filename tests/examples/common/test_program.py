"""The record of a program: keys, runs that are done once, the table."""

import keras
import numpy as np
import pytest

from examples.common import program
from tests.examples.files import read


def options(parser):
    parser.add_argument("--models", nargs="+", default=["a", "b"])
    parser.add_argument("--units", type=int, default=3)


def check(parser, args):
    if args.units < 1:
        parser.error("--units: too few")
    args.width = 2 * args.units


def make(run, **more):
    return program.Program(
        doc="A program.\n\nThat measures nothing.",
        output="runs/tiny.csv",
        options=options,
        check=check,
        seeds=(0, 1),
        key=("data", "model", "seed", "settings"),
        cases=lambda args: program.grid(data=["x"], model=args.models),
        settings=("units", "width"),
        more=lambda args, case: {"last": 1} if case["model"] == "b" else {},
        run=run,
        **more,
    )


def test_keys_are_seed_by_seed():
    tiny = make(None)
    args = tiny.parse(["--units", "4"])
    a, b = "units=4 width=8", "units=4 width=8 last=1"
    assert tiny.keys(args) == [
        ("x", "a", "0", a),
        ("x", "b", "0", b),
        ("x", "a", "1", a),
        ("x", "b", "1", b),
    ]
    assert str(args.output) == "runs/tiny.csv"
    with pytest.raises(SystemExit):
        tiny.parse(["--units", "0"])


def test_runs_are_done_once_and_shown(tmp_path, capsys):
    done, loaded, ended = [], [], []

    def run(own):
        own.place.mkdir(parents=True)
        own.file("keras").touch()
        done.append((own.key["model"], own.seed, own.data))
        if done[-1][:2] == ("b", 0) and len(done) == 2:
            raise KeyboardInterrupt
        # Seeds are set.
        score = float(keras.random.uniform(())) + (own.key["model"] == "b")
        return {"score": score, "empty": ""}

    tiny = make(
        run,
        load=lambda args: loaded.append(args.units) or "data",
        after=lambda args, rows: ended.append(len(rows)),
    )
    line = ["--output", str(tmp_path / "t.csv")]
    with pytest.raises(SystemExit, match="the same command continues"):
        tiny.main(line)
    assert len(read(tmp_path / "t.csv")) == 1
    # The backup of the run that was killed is there.
    (left,) = (x for x in (tmp_path / "t-models").iterdir() if x.is_dir())
    left.rmdir()
    table = tiny.main(line)
    runs = [("a", 0), ("b", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert done == [(*x, "data") for x in runs]
    assert (loaded, ended) == ([3, 3], [4])
    rows = read(tmp_path / "t.csv")
    scores = [float(row["score"]) for row in rows]
    assert scores[1] == pytest.approx(scores[0] + 1)
    assert scores[0] != scores[2]
    header, _, first, second, *_ = table.split("\n")
    assert header == "| model | score | seconds | seeds |"
    mean = f"{np.mean(scores[::2]):.4g}"
    assert first.startswith(f"| a | {mean} ± ") and first.endswith("| 2 |")
    assert second.startswith("| b |")
    assert not [x for x in (tmp_path / "t-models").iterdir() if x.is_dir()]
    for row in rows:
        place = tiny.place(tiny.parse(line), row)
        assert place.with_name(f"{place.name}.keras").exists()
    assert tiny.main(line) == table and len(done) == 5
    tiny.main([*line, "--units", "5", "--models", "a"])
    assert len(done) == 7
    assert table in capsys.readouterr().out
