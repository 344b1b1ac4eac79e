"""The code of the README runs, block after block, as it stands there."""

import re

import keras
import numpy as np
import pytest

from tests import ROOT

pytestmark = pytest.mark.long


def test_code_blocks(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    text = (ROOT / "README.md").read_text(encoding="utf8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    keras.config.disable_interactive_logging()
    random = np.random.default_rng(0)
    names = {
        "token_ids": random.integers(1, 50, (8, 6)),
        "labels": random.integers(0, 2, 8),
        "sequences": random.normal(size=(2, 5, 8)),
        "questions": random.normal(size=(8, 16)),
    }
    try:
        for block in blocks:
            exec(block, names)
    finally:
        keras.config.enable_interactive_logging()
    assert names["outputs"].shape == (2, 5, 128)
    assert names["short"].shape == (None, 50, 128)
    assert names["present"].shape == (None, 50)
    assert (tmp_path / "models" / "segmenter" / "1").is_dir()
