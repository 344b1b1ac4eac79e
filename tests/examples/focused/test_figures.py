"""Pictures of the gates of tiny models."""

import keras
import numpy as np
import pytest

from examples.focused import figures
from examples.focused import models
from examples.focused import picking
from examples.focused import pixel_questions

pytestmark = pytest.mark.long

# Gates of a model that has learned nothing are open here and there.
SMALL = ["--units", "6"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of both studies."""
    root = tmp_path_factory.mktemp("studies")
    keras.utils.set_random_seed(1)
    args = picking.PROGRAM.parse([*SMALL, "--length", "8"])
    model = picking.build("fhe", "reinforce", args)
    model.save(root / "picking-fhe.keras")
    args = pixel_questions.PROGRAM.parse(SMALL)
    model = pixel_questions.build("fhe", "reinforce", 64, args)
    model.save(root / "pixels-fhe.keras")
    return root


def model(folder, study, name):
    return str(folder / f"{study}-{name}.keras")


def test_all_figures(folder, tmp_path):
    shown = figures.main(
        [
            *("--output-dir", str(tmp_path / "figures")),
            *("--picking-model", model(folder, "picking", "fhe")),
            *("--pixel-model", model(folder, "pixels", "fhe")),
        ]
    )
    names = {"positions", "pixels"}
    assert set(shown) == names
    for name in names:
        path = tmp_path / "figures" / f"{name}.png"
        assert path.read_bytes().startswith(b"\x89PNG")
    gates, focus = (shown["positions"][name] for name in ("gates", "focus"))
    assert list(gates) == list(focus) == [1, 3, 5, 7]
    asked, _ = picking.picking.examples(800, 8)
    asked["k"] = np.repeat(np.array([1, 3, 5, 7], "int32"), 200)
    trained = keras.models.load_model(model(folder, "picking", "fhe"))
    opened = models.probe(trained).predict(asked, verbose=0)["gates"]
    expected = {k: opened[asked["k"] == k].mean(axis=0) for k in gates}
    assert 0 < opened.mean() < 1
    for k in gates:
        assert gates[k].shape == focus[k].shape == (8,)
        np.testing.assert_allclose(gates[k], expected[k], atol=1e-6)
        # What is left went to the state before any gate is open.
        assert 0 <= focus[k].sum() <= 1 + 1e-5
        assert (focus[k][gates[k] == 0] == 0).all()
    assert shown["pixels"].shape == (20, 64)
    assert set(shown["pixels"].ravel()) == {0.0, 1.0}
