"""The figures of the pooling study, of small models."""

import shutil

import numpy as np
import pytest

from examples.pooling import compare
from examples.pooling import figures
from tests.examples.files import read
from tests.examples.pooling.small_study import SMALL
from tests.examples.pooling.small_study import write_imdb

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts, and a model trained on them that stands for three settings."""
    root = tmp_path_factory.mktemp("data")
    write_imdb(root, words=(370, 420))
    study = ["--data-dir", str(root), "--output", str(root / "r.csv")]
    study += ["--sizes", "60", "--settings", "standard", "--seeds", "0"]
    study += ["--models", "maxpool", "--save-models", str(root / "models")]
    study += ["--epochs", "3", "--learning-rate", "0.03", *SMALL]
    compare.main([*study, "--max-length", "400", "--vanishing-every", "8"])
    for path in list((root / "models").iterdir()):
        for setting in ("short", "mid"):
            shutil.copy(path, str(path).replace("standard", setting))
    return root


def arguments(folder, output, *more):
    options = ["--data-dir", folder, "--output", output, "--size", "60"]
    options += ["--test-size", "12", "--importance-texts", "2", *more]
    return [str(option) for option in options]


@pytest.mark.slow
def test_figures_and_their_points(folder, tmp_path):
    (curve,) = folder.glob("r-models/60-standard-maxpool-0-*.csv")
    more = ["--curves", curve, "--start-texts", "0"]
    more += ["--models", folder / "models"]
    points = figures.main(arguments(folder, tmp_path, *more))
    names = {"gradients", "noise", "vanishing"}
    names |= {f"importance_{part}" for part in ("standard", "short", "mid")}
    assert {path.stem for path in tmp_path.glob("*.png")} == names
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    rows = read(tmp_path / "points.csv")
    assert len(rows) == len(points)
    assert {row["model"] for row in rows} == {"maxpool"}

    def curve_of(figure, panel):
        found = [
            r for r in rows if (r["figure"], r["panel"]) == (figure, panel)
        ]
        x, y = (np.array([float(r[k]) for r in found]) for k in "xy")
        assert (y >= 0).all()
        return x, y

    for figure, panel in (
        ("gradients", "standard"),
        ("importance_standard", "standard"),
        ("importance_short", "short"),
        ("importance_mid", "mid"),
    ):
        x, y = curve_of(figure, panel)
        np.testing.assert_allclose(x, np.linspace(0, 1, 100), atol=1e-5)
        assert y.max() > 0
    accuracies = [
        curve_of("noise", place) for place in ("left", "mid", "right")
    ]
    for x, y in accuracies:
        assert x.tolist() == [0, 0.2, 0.4, 0.6, 0.8] and y.max() <= 1
        assert y[0] == accuracies[0][1][0] > 0.6
    # In mid, the third of the words in the middle counts.
    _, y = curve_of("importance_mid", "mid")
    assert y[36:64].mean() > 2 * np.r_[y[:30], y[70:]].mean()


@pytest.mark.slow
def test_models_that_start(folder, tmp_path, monkeypatch):
    """The BiLSTM, and the same without a forget bias, means over seeds."""
    only = {"bilstm": figures.classifiers.POOLINGS["bilstm"]}
    monkeypatch.setattr(figures.classifiers, "POOLINGS", only)
    monkeypatch.setattr(figures, "UNITS", 4)
    options = arguments(folder, tmp_path, "--start-texts", "8")
    points = figures.main([*options, "--seeds", "0", "1"])
    ends = {}
    for figure, panel, model, _, y in points:
        assert (figure, panel) == ("start_gradients", "")
        ends.setdefault(model, []).append(float(y))
    assert [len(values) for values in ends.values()] == [100, 100]
    middle = {model: values[50] for model, values in ends.items()}
    assert middle["bilstm_lowf"] < middle["bilstm"]
    assert [path.name for path in tmp_path.glob("*.png")] == [
        "start_gradients.png"
    ]


@pytest.mark.parametrize(
    "setting, expected",
    [
        ("standard", []),
        ("short", []),
        ("left", [0.34]),
        ("right", [0.66]),
        ("mid", [0.33, 0.67]),
    ],
)
def test_separators(setting, expected):
    found = figures.separators(setting)
    np.testing.assert_allclose(found, expected, atol=1e-3)
