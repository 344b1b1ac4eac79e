"""Pictures of the gates of tiny models."""

import pytest

pytest.importorskip("matplotlib", reason="needs keras_seqmech[plots]")
pytest.importorskip("sklearn", reason="needs keras_seqmech[examples]")

from examples import focused_figures  # noqa: E402
from examples import picking  # noqa: E402
from examples import pixel_questions  # noqa: E402

SMALL = [
    *("--batch-size", "16"),
    *("--units", "6", "--steps", "4", "--evaluate-every", "2"),
    *("--test-size", "20"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of both studies and their models."""
    root = tmp_path_factory.mktemp("studies")
    options = [*SMALL, "--models", "fhe", "lstm1", "--length", "8"]
    picking.main([*options, "--output", str(root / "picking.csv")])
    options = [*SMALL, "--models", "fhe"]
    pixel_questions.main([*options, "--output", str(root / "pixels.csv")])
    return root


def model(folder, study, name):
    (path,) = (folder / f"{study}-models").glob(f"*-{name}-*.keras")
    return str(path)


def test_all_figures(folder, tmp_path):
    shown = focused_figures.main(
        [
            *("--output-dir", str(tmp_path / "figures"), "--count", "5"),
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
    for task in ("picking-8", "digits"):
        ((openness, accuracy),) = shown[f"openness_{task}"]["reinforce"]
        assert 0 <= openness <= 1 and 0 <= accuracy <= 1
    assert list(shown["positions"]) == [1, 3, 5, 7]
    for curve in shown["positions"].values():
        assert curve.shape == (8,) and ((curve >= 0) & (curve <= 1)).all()
    assert shown["pixels"].shape == (20, 64)
    assert set(shown["pixels"].ravel()) <= {0.0, 1.0}


def test_positions_are_those_asked(folder, tmp_path):
    path = model(folder, "picking", "fhe")
    options = ["--output-dir", str(tmp_path), "--picking-model", path]
    options += ["--positions", "2", "8", "--length", "11", "--count", "3"]
    curves = focused_figures.main(options)["positions"]
    assert list(curves) == [2, 8]
    assert {curve.shape for curve in curves.values()} == {(11,)}


def test_bad_input(folder, tmp_path, capsys):
    options = ["--output-dir", str(tmp_path)]
    path = model(folder, "picking", "fhe")
    with pytest.raises(ValueError, match="--positions: .*at most 8.*9"):
        focused_figures.main(
            [*options, "--picking-model", path, "--positions", "9"]
        )
    path = model(folder, "picking", "lstm1")
    with pytest.raises(ValueError, match="Needs a model fhe"):
        focused_figures.main([*options, "--picking-model", path])
    empty = tmp_path / "none.csv"
    with pytest.raises(ValueError, match="--runs: .*none.csv"):
        focused_figures.main([*options, "--runs", str(empty)])
    with pytest.raises(SystemExit):
        focused_figures.main(options)
    assert "nothing to draw" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        focused_figures.main([*options, "--pixel-model", path, "--mnist"])
    assert "--mnist: needs --data-dir" in capsys.readouterr().err
