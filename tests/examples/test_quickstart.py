"""The demo, on a few words."""

import itertools
import re

import pytest

from examples import quickstart
from tests.analysis.markup.reading import read
from tests.analysis.markup.reading import tokens

# Each letter has its sound; h has none, as behind c.
SOUND_OF = {"a": "AE", "b": "B", "c": "K", "h": "", "t": "T"}


@pytest.fixture
def data_dir(tmp_path):
    words = map("".join, itertools.product(SOUND_OF, repeat=3))
    lines = [" ".join([x, *filter(None, map(SOUND_OF.get, x))]) for x in words]
    (tmp_path / "cmudict").mkdir()
    (tmp_path / "cmudict" / "cmudict.dict").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.slow
def test_quickstart(data_dir, tmp_path, capfd):
    quickstart.main(
        f"--words 70 --test-words 20 --epochs 1 --units 4 --word Bath "
        f"--data-dir {data_dir} --output-dir {tmp_path}".split()
    )
    output = capfd.readouterr().out
    assert re.search(r"\n *LSTM +\d+\.\d +0\.00 +0\n", output)
    weighted = [f"LookAhead, LSTM +{x}" for x in quickstart.WEIGHTS]
    for name in ("LSTM, sees 1 ahead", "LSTM, sees 2 ahead", *weighted):
        row = rf"\n *{name} +\d+\.\d +\d+\.\d\d +\d+(?=\n)"
        assert re.search(row, output)
    # Both streams end with what is served, letter by letter.
    typed = re.search(r"weight 0.2 .*?\n\n", output, re.DOTALL)[0]
    for letter in "bath":
        assert typed.count(f"{letter}: ") == 2
    page = read((tmp_path / "decisions.html").read_text("utf-8"))
    assert tokens(page) == list("bath␣" * 2)
    assert (tmp_path / "sounds" / "1" / "saved_model.pb").is_file()
    first, *_, served = re.findall(r"  weight [\d.]+: ?(.*)\n", output)
    (title,) = page.all("title")
    assert title.text == f"bath: {served}"
    for said, sounds in zip((first, served), streamed(typed)):
        assert said.split() == [x for x in sounds if x != "-"]


def streamed(typed):
    """The sounds of each of the two weights, as a table has them."""
    rows = typed.splitlines()
    cut = rows[0].index(f"weight {quickstart.WEIGHTS[-1]}")
    for part in (slice(8, cut), slice(cut, None)):
        found = [x for row in rows[1:] for x in row[part].split("  ") if x]
        yield " ".join(x.partition(": ")[2] for x in found).split()
