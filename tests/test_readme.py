"""The code of pages runs, as a reader runs it: a page from top to bottom."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import ROOT

# What pages need, and of which version at least.
NEEDED = {
    "docs/on_a_device.md": {
        "ai_edge_litert": None,
        "onnxruntime": None,
        "tf2onnx": None,
    },
    "docs/serving.md": {"keras": "3.13", "onnxruntime": None, "tf2onnx": None},
    "docs/tuning.md": {"keras_tuner": None},
}
TUTORIALS = sorted(
    str(path.relative_to(ROOT)) for path in ROOT.glob("docs/tutorials/*.md")
)


def blocks_of(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


PAGES = [
    str(path.relative_to(ROOT))
    for path in (
        ROOT / "README.md",
        *sorted(ROOT.glob("docs/*.md")),
        *sorted(ROOT.glob("docs/mechanisms/*.md")),
    )
    if blocks_of(str(path))
]


def run(page: str) -> dict:
    """Runs the blocks of a page; returns the names that they leave."""
    names: dict = {}
    for block in blocks_of(page):
        exec(block, names)
    return names


@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore:The decisions of layer 'look'",  # After few steps.
    "ignore:In the future `np.object`",  # Of ONNX.
)
@pytest.mark.parametrize("page", PAGES)
def test_pages_run(page, tmp_path, monkeypatch, capsys):
    for module, version in NEEDED.get(page, {}).items():
        pytest.importorskip(module, minversion=version)
    monkeypatch.chdir(tmp_path)
    names = run(page)
    printed = capsys.readouterr().out
    assert "TensorSpec" not in printed, printed
    check = CHECKS.get(page)
    if check:
        check(names, printed)


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorials_run_as_notebooks(page, tmp_path, monkeypatch):
    """They need the package alone, and print what they say."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    importlib.import_module("notebooks").write(tmp_path)
    notebook = tmp_path / f"{Path(page).stem}.ipynb"
    cells = json.loads(notebook.read_text("utf8"))["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    (tmp_path / "keras_seqmech").symlink_to(ROOT / "keras_seqmech")
    alone = "import sys\nsys.modules.update(examples=None, matplotlib=None)"
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([alone, *code])],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    CHECKS[page]({}, done.stdout)


def check_readme(names: dict, printed: str) -> None:
    points = [x for x in numbers(printed) if len(x) == 3]
    (_, soon_right, soon), *_, (_, late_right, late) = points
    assert soon < 0.5 < late < 2 and soon_right + 3 < late_right > 98
    assert names["whole"].shape == (1, 100, 1)


def check_beside_keras(_: dict, printed: str) -> None:
    *windows, _, _, (_, f1, delay), _ = numbers(printed)
    f1s, delays = zip(*windows)
    # Of windows at the same delay, on the line between them.
    assert f1 > np.interp(delay, delays, f1s) and delay < max(delays)
    answers = re.search(r"((?:\d )+)answers", printed)[1].split()
    assert 25 <= sum(map(int, answers)) <= 30


def check_choosing_settings(names: dict, printed: str) -> None:
    history = names["model"].history.history
    for curve in ("mean_size", "size_entropy", "choice_entropy", "certain"):
        assert np.isfinite(history[f"look_{curve}"]).all()
    assert names["sizes"].shape == names["token_ids"].shape
    assert 1 <= names["sizes"].min() and names["sizes"].max() <= 4
    assert "Numbers read at each one" in printed


def check_mechanism_focused(names: dict, _: str) -> None:
    """Skipping gives what reading all and adding up the open steps does."""
    pictures, gates = (np.array(names[x]) for x in ("pictures", "gates"))
    assert 0 < gates.mean() < 1 and set(gates.flat) == {0, 1}
    kernel, bias = map(np.array, names["costly"].get_weights())
    every = np.maximum(pictures @ kernel + bias, 0)
    expected = (gates[..., None] * every).sum(axis=1)
    np.testing.assert_allclose(names["read"], expected, atol=1e-4)


def check_mechanism_pooling(_: dict, printed: str) -> None:
    # At the ends of four epochs.
    expected = [min(1, (epoch / 3) ** 2) for epoch in range(1, 5)]
    values = [float(v) for v in re.findall(r"[\d.]+", printed)]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def check_masks(_: dict, printed: str) -> None:
    assert "<- the first to read padding" in printed


def check_migration(names: dict, _: str) -> None:
    assert float(names["difference"]) < 1e-6
    np.testing.assert_allclose(names["focused"], names["stacked"], atol=1e-6)


def check_policy_gradient(names: dict, _: str) -> None:
    assert names["served"] is names["model"].network
    assert np.isfinite(float(names["loss"]))
    assert len(names["gradients"]) == len(names["variables"])
    assert all(gradient is not None for gradient in names["gradients"])


def check_streaming(names: dict, printed: str) -> None:
    steps = [int(n) for n in re.findall(r"(\d) more", printed)]
    last = int(names["outputs"]["count"][0])
    assert len(steps) == 3 and sum(steps) + last == 6
    assert names["outputs"]["tags"].shape == (1, last, 5)
    assert names["stream"].delay == 3 >= last


def numbers(printed: str) -> list[tuple[float, ...]]:
    """The decimal numbers of each line that has some."""
    lines = (re.findall(r"\d+\.\d+", line) for line in printed.splitlines())
    return [tuple(map(float, line)) for line in lines if line]


def check_read_ahead(_: dict, printed: str) -> None:
    *windows, (right, delay) = numbers(printed)[:4]
    rights, delays = zip(*windows)
    # Of windows at the same delay, on the line between them.
    assert right > np.interp(delay, delays, rights) + 0.5
    assert right > max(rights) and delay < max(delays)
    # One training, the soonest answers first.
    points = re.findall(r"weight .*: (.*) % right, (.*) steps", printed)
    points = [tuple(map(float, point)) for point in points]
    for right, delay in points:
        assert right > np.interp(delay, delays, rights) + 0.5
    assert len(points) == 3 and sorted(points) == points


def check_focus(_: dict, printed: str) -> None:
    lstms, attention, encoder, gates = (x for x, *_ in numbers(printed)[:4])
    assert lstms < 90 and min(attention, encoder) > 95
    assert 1 <= gates < 6


def check_pool(_: dict, printed: str) -> None:
    last, mean, maximum, attention, best = (x for x, *_ in numbers(printed)[:5])
    assert last < 60 < attention and max(mean, maximum) + 10 < best
    # Gradients, in percent of those at the last word.
    by_state, by_attention = (row for row in numbers(printed) if len(row) == 4)
    assert max(by_state[1:3]) < 20 and min(by_attention[1:3]) > 100


def check_subsample(_: dict, printed: str) -> None:
    every, stride, convolution, learned = (x for x, *_ in numbers(printed)[:4])
    assert stride < 30 < convolution < 90 < learned and every < learned


CHECKS = {
    "README.md": check_readme,
    "docs/tutorials/focused_encoder.md": check_focus,
    "docs/tutorials/pooling.md": check_pool,
    "docs/tutorials/receptive_field.md": check_read_ahead,
    "docs/tutorials/subsampling.md": check_subsample,
    "docs/beside_keras.md": check_beside_keras,
    "docs/choosing_settings.md": check_choosing_settings,
    "docs/masks.md": check_masks,
    "docs/mechanisms/focused_encoder.md": check_mechanism_focused,
    "docs/mechanisms/pooling.md": check_mechanism_pooling,
    "docs/migration.md": check_migration,
    "docs/policy_gradient.md": check_policy_gradient,
    "docs/streaming.md": check_streaming,
}


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf8").splitlines()
    assert len(lines) <= 130
    for block in blocks_of("README.md"):
        assert len(block.splitlines()) <= 30


@pytest.mark.parametrize(
    "page",
    [
        str(path.relative_to(ROOT))
        for path in sorted(
            [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
            # The links of templates are those of the pages made of them.
            + sorted(
                {*ROOT.glob("examples/**/*.md")}
                - {*ROOT.glob("examples/study/templates/*")}
            )
        )
    ],
)
def test_links_and_modules_exist(page):
    """Relative links lead to files, commands to modules."""
    text = (ROOT / page).read_text(encoding="utf8")
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (folder / target).is_file(), target
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
