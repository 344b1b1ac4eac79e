"""The figures of the pooling study, of small models."""

import shutil

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")
pytest.importorskip("matplotlib", reason="needs keras_seqmech[plots]")

from examples.pooling import compare  # noqa: E402
from examples.pooling import figures  # noqa: E402
from tests.examples.csv_files import read  # noqa: E402
from tests.examples.pooling.small_study import SMALL  # noqa: E402
from tests.examples.pooling.small_study import run_small  # noqa: E402
from tests.examples.pooling.small_study import write_imdb  # noqa: E402

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts, and a model trained on them that stands for three settings."""
    root = tmp_path_factory.mktemp("data")
    write_imdb(root)
    study = ["--data-dir", str(root), "--output", str(root / "r.csv")]
    study += ["--sizes", "60", "--settings", "standard", "--seeds", "0"]
    study += ["--models", "maxpool", "--save-models", str(root / "models")]
    study += ["--epochs", "5", "--learning-rate", "0.03"]
    compare.main([*study, *SMALL, "--vanishing-every", "8"])
    for path in list((root / "models").iterdir()):
        for setting in ("short", "mid"):
            shutil.copy(path, str(path).replace("standard", setting))
    return root


def arguments(folder, output, *more):
    own = ["--size", "60", "--share", "0.5", "--test-size", "12"]
    own += ["--start-texts", "0", "-k", "2", "--text-length", "7"]
    own += ["--shares", "0", "0.5", "--models", str(folder / "models")]
    return [
        "--data-dir",
        str(folder),
        "--output",
        str(output),
        *SMALL,
        *own,
    ] + [str(option) for option in more]


def test_models_are_of_one_setting(tmp_path):
    stem = "imdb-60-mid-att-1"
    assert figures.find_model(tmp_path, stem) is None
    (tmp_path / f"{stem}.keras").touch()
    (tmp_path / "imdb-60-mid-att-10-1234abcd.keras").touch()
    # As earlier programs named them.
    assert figures.find_model(tmp_path, stem).name == f"{stem}.keras"
    (tmp_path / f"{stem}-1234abcd.keras").touch()
    with pytest.raises(ValueError, match="-1234abcd.keras, .*att-1.keras"):
        figures.find_model(tmp_path, stem)


def test_figures_and_their_points(folder, tmp_path):
    (curve,) = folder.glob("r-imdb-60-standard-maxpool-0-*.csv")
    points = figures.main(
        arguments(folder, tmp_path, "--curves", curve, "--max-length", 14)
    )
    names = {"gradients", "noise", "vanishing"}
    names |= {f"importance_{part}" for part in ("standard", "short", "mid")}
    assert {path.stem for path in tmp_path.glob("*.png")} == names
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    rows = read(tmp_path / "points.csv")
    assert [tuple(row.values()) for row in rows] == points
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
        assert x.tolist() == [0, 0.5] and y.max() <= 1
        assert y[0] == accuracies[0][1][0] > 0.6
    # In mid, the half of the words in the middle counts.
    _, y = curve_of("importance_mid", "mid")
    assert y[30:70].mean() > 2 * np.r_[y[:15], y[85:]].mean()


def test_models_that_start(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(figures.classifiers, "BILSTMS", ("bilstm_lowf",))
    run_small(monkeypatch)
    cleared, clear = [], keras.utils.clear_session

    def noted():
        cleared.append(clear())

    monkeypatch.setattr(keras.utils, "clear_session", noted)
    options = arguments(folder, tmp_path, "--start-texts", "8")
    options += ["--seeds", "0", "1"]
    options = [o for o in options if o != str(folder / "models")]
    options.remove("--models")
    points = figures.main(options)
    assert len(cleared) == 2
    assert {point[:3] for point in points} == {
        ("start_gradients", "", "bilstm_lowf")
    }
    assert len(points) == 100
    assert [path.name for path in tmp_path.glob("*.png")] == [
        "start_gradients.png"
    ]


@pytest.mark.parametrize(
    "setting, share, expected",
    [
        ("standard", 0.66, []),
        ("short", 0.66, []),
        ("left", 0.66, [0.34]),
        ("right", 0.66, [0.66]),
        ("mid", 0.66, [0.33, 0.67]),
        ("mid", 0.0, []),
    ],
)
def test_separators(setting, share, expected):
    args = figures.parse(["--data-dir", "x", "--share", str(share)])
    found = figures.separators(setting, args)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_bad_input(folder, tmp_path, capsys):
    with pytest.raises(ValueError, match="models: no models for .*--size 7"):
        figures.main(arguments(folder, tmp_path, "--size", "7"))
    with pytest.raises(ValueError, match="90% of 300 tokens"):
        figures.main(arguments(folder, tmp_path, "--max-length", "300"))
    with pytest.raises(SystemExit):
        figures.parse(["--data-dir", "x", "--shares", "0", "1"])
    error = capsys.readouterr().err
    assert "--shares: must be a number in [0, 1)" in error
