"""The code of the README and of pages of the docs runs, block after block."""

import re

import keras
import numpy as np
import pytest

from tests import ROOT

MOST_LINES = 10


def blocks_of(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run_blocks(page: str, **names) -> dict:
    """Runs the blocks of a page; returns the names that they leave."""
    keras.config.disable_interactive_logging()
    try:
        for block in blocks_of(page):
            exec(block, names)
    finally:
        keras.config.enable_interactive_logging()
    return names


def data() -> dict[str, np.ndarray]:
    """What the blocks of pages of the docs are given."""
    random = np.random.default_rng(0)
    return {
        "token_ids": random.integers(1, 50, (8, 6)),
        "labels": random.integers(0, 2, 8),
        "token_labels": random.integers(0, 4, (8, 6)),
        "sequences": random.normal(size=(2, 5, 8)),
        "values": random.normal(size=(2, 2)),
        "questions": random.normal(size=(8, 16)),
    }


@pytest.mark.long
def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks("README.md")
    assert names["read"].shape == (None, None, 4 * 64)
    assert names["sentence"].shape == (None, 128)
    assert names["state"].shape == (None, 64)
    assert names["short"].shape == (None, 50, 64)
    assert names["present"].shape == (None, 50)
    assert (tmp_path / "models" / "answers" / "1").is_dir()


@pytest.mark.long
def test_mechanisms(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names = run_blocks("docs/mechanisms.md", **data())
    assert names["sizes"].shape == (2, 5)
    assert "Tokens read at each step" in capsys.readouterr().out
    assert np.isfinite(names["profile"]).all() and names["profile"].max() > 0
    assert np.isfinite(names["importance"]).all()
    assert names["figure"].axes


@pytest.mark.long
def test_migration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks("docs/migration.md", **data())
    assert float(names["difference"]) < 1e-6
    np.testing.assert_allclose(names["focused"], names["stacked"], atol=1e-6)


def test_masks(capsys):
    run_blocks("docs/masks.md", **data())
    assert "<- the first to read padding" in capsys.readouterr().out


def test_examples_of_the_readme_are_short():
    for block in blocks_of("README.md"):
        lines = [line for line in block.splitlines() if line.strip()]
        assert len(lines) <= MOST_LINES, block


@pytest.mark.parametrize(
    "page",
    [
        str(path.relative_to(ROOT))
        for path in sorted(
            [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
            + [*ROOT.glob("examples/**/*.md")]
        )
    ],
)
def test_links_and_modules_exist(page):
    """Relative links lead to files, commands to modules."""
    text = (ROOT / page).read_text(encoding="utf8")
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (folder / target).exists(), target
    for module in re.findall(
        r"python -m ((?:examples|benchmarks)[\w.]*)", text
    ):
        path = ROOT.joinpath(*module.split("."))
        program = path / "__main__.py" if path.is_dir() else f"{path}.py"
        assert (ROOT / program).is_file(), module
    for path in re.findall(
        r"`?((?:examples|benchmarks|tests)/[\w/.]+\.\w+)", text
    ):
        assert (ROOT / path).is_file(), path


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The decisions of layer 'field'")
def test_choosing_settings():
    names = run_blocks("docs/choosing_settings.md", **data())
    history = names["model"].history.history
    for curve in ("mean_size", "size_entropy", "choice_entropy", "certain"):
        assert np.isfinite(history[f"field_{curve}"]).all()
    assert np.isfinite(names["information"])
    assert names["sizes"].shape == names["token_ids"].shape
    assert 1 <= names["sizes"].min() and names["sizes"].max() <= 4


@pytest.mark.long
def test_streaming(capsys):
    names = run_blocks("docs/streaming.md")
    steps = [int(n) for n in re.findall(r"(\d) more", capsys.readouterr().out)]
    last = int(names["outputs"]["count"][0])
    assert len(steps) == 3 and sum(steps) + last == 6
    assert names["outputs"]["tags"].shape == (1, last, 5)
    assert names["stream"].delay == 3 >= last


@pytest.mark.long
def test_policy_gradient():
    names = run_blocks("docs/policy_gradient.md", **data())
    assert names["served"] is names["model"].network
    assert np.isfinite(float(names["loss"]))
    assert len(names["gradients"]) == len(names["variables"])
    assert all(gradient is not None for gradient in names["gradients"])


@pytest.mark.long
def test_curricula(capsys):
    run_blocks("docs/curricula.md", **data())
    printed = capsys.readouterr().out
    # At the ends of four epochs.
    expected = [min(1, (epoch / 3) ** 2) for epoch in range(1, 5)]
    values = [float(v) for v in re.findall(r"[\d.]+", printed)]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
