"""The figures of the pooling study, of small models."""

import shutil

import numpy as np
import pytest

from examples.pooling import compare
from examples.pooling import figures
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
    compare.PROGRAM.main(
        [*study, "--max-length", "400", "--vanishing-every", "8"]
    )
    for path in list((root / "models").iterdir()):
        shutil.copy(path, str(path).replace("standard", "mid"))
    return root


def arguments(folder, output, *more):
    options = ["--data-dir", folder, "--output", output, "--size", "60"]
    options += ["--test-size", "12", "--importance-texts", "2", *more]
    return [str(option) for option in options]


@pytest.mark.slow
def test_figures_and_what_they_show(folder, tmp_path):
    (curve,) = folder.glob("r-models/60-standard-maxpool-0-*.csv")
    more = ["--curves", curve, "--start-texts", "0"]
    more += ["--models", folder / "models"]
    shown = figures.main(arguments(folder, tmp_path, *more))
    names = {"noise", "importance_standard", "importance_mid"}
    assert {*shown} == names
    drawn = {path.stem for path in tmp_path.glob("*.png")}
    assert drawn == {*names, "vanishing"}
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    for name in ("importance_standard", "importance_mid"):
        y = shown[name]["maxpool"]
        assert len(y) == 100 and y.min() >= 0 and y.max() > 0
    noise = shown["noise"]
    assert [*noise] == ["left", "mid", "right"]
    for models in noise.values():
        y = models["maxpool"]
        assert len(y) == len(figures.NOISE_SHARES)
        assert 0 <= min(y) and max(y) <= 1
        # Without noise the place of a text makes no difference.
        assert y[0] == noise["left"]["maxpool"][0] > 0.6
    # In mid, the third of the words in the middle counts.
    y = shown["importance_mid"]["maxpool"]
    assert y[36:64].mean() > 2 * np.r_[y[:30], y[70:]].mean()


@pytest.mark.parametrize(
    "setting, expected",
    [
        ("standard", []),
        ("left", [0.34]),
        ("right", [0.66]),
        ("mid", [0.33, 0.67]),
    ],
)
def test_separators(setting, expected):
    found = figures.separators(setting)
    np.testing.assert_allclose(found, expected, atol=1e-3)
