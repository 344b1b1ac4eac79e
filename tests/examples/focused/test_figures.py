"""Pictures of the gates of tiny models."""

import keras
import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs keras_seqmech[plots]")
pytest.importorskip("sklearn", reason="needs keras_seqmech[examples]")

from examples.common import results  # noqa: E402
from examples.focused import experiments  # noqa: E402
from examples.focused import figures  # noqa: E402
from examples.focused import models  # noqa: E402
from examples.focused import picking  # noqa: E402
from examples.focused import pixel_questions  # noqa: E402

pytestmark = pytest.mark.long

# Gates of a model that has learned nothing are open here and there.
SMALL = ["--units", "6"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of both studies, and lines of runs."""
    root = tmp_path_factory.mktemp("studies")
    keras.utils.set_random_seed(1)
    args = picking.parse([*SMALL, "--length", "8"])
    for name, estimator in (("fhe", "reinforce"), ("lstm1", "")):
        model = picking.build(name, estimator, args)
        model.save(root / f"picking-{name}.keras")
    args = pixel_questions.parse(SMALL)
    model = pixel_questions.build("fhe", "reinforce", 64, args)
    model.save(root / "pixels-fhe.keras")
    rows = [
        ("picking", "picking-8", "fhe", "reinforce", 25, 75),
        ("picking", "picking-8", "lstm1", "", "nan", 50),
        ("pixels", "digits", "fhe", "reinforce", 10, 90),
    ]
    for study, task, name, estimator, openness, accuracy in rows:
        row = {
            **dict.fromkeys(experiments.FIELDS, ""),
            **{"task": task, "model": name, "estimator": estimator},
            **{"openness": openness, "accuracy": accuracy},
        }
        results.ResultsFile(
            root / f"{study}.csv", experiments.FIELDS, experiments.KEY
        ).add(row)
    return root


def model(folder, study, name):
    return str(folder / f"{study}-{name}.keras")


def test_all_figures(folder, tmp_path):
    shown = figures.main(
        [
            *("--output-dir", str(tmp_path / "figures")),
            *("--runs", str(folder / "picking.csv")),
            str(folder / "pixels.csv"),
            *("--picking-model", model(folder, "picking", "fhe")),
            *("--pixel-model", model(folder, "pixels", "fhe")),
        ]
    )
    names = {"openness_picking-8", "openness_digits", "positions", "pixels"}
    assert set(shown) == names
    for name in names:
        path = tmp_path / "figures" / f"{name}.png"
        assert path.read_bytes().startswith(b"\x89PNG")
    assert shown["openness_picking-8"] == {"reinforce": [(0.25, 0.75)]}
    assert shown["openness_digits"] == {"reinforce": [(0.1, 0.9)]}
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


def test_weights_go_to_the_step_that_made_the_state():
    weights = np.full((2, 4), 0.25000003)
    gates = np.array([[0, 1, 0, 1.0], [1, 0, 0, 0]])
    found = figures.weight_by_origin(weights, gates)
    np.testing.assert_allclose(found, [[0, 0.5, 0, 0.25], [1, 0, 0, 0]], 1e-6)
    assert found.max() == 1


def test_bad_input(folder, tmp_path, capsys):
    options = ["--output-dir", str(tmp_path)]
    path = model(folder, "picking", "lstm1")
    with pytest.raises(ValueError, match="Needs a model fhe"):
        figures.main([*options, "--picking-model", path])
    empty = tmp_path / "none.csv"
    with pytest.raises(ValueError, match="--runs: .*none.csv"):
        figures.main([*options, "--runs", str(empty)])
    with pytest.raises(SystemExit):
        figures.main(options)
    assert "nothing to draw" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        figures.main([*options, "--pixel-model", path, "--mnist"])
    assert "--mnist: needs --data-dir" in capsys.readouterr().err
