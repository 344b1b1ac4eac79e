"""Pictures of decisions, laid out by a browser."""

import numpy as np
import pytest

from keras_seqmech import analysis
from tests import browser

pytestmark = [pytest.mark.long, browser.needs_browser]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser.browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def opened(driver, picture, folder, width=1100):
    browser.resize(driver, width)
    driver.get(picture.save(folder / "picture.html").as_uri())


@pytest.mark.parametrize("width", [320, 1100])
def test_tokens_wrap_and_cover_nothing(driver, tmp_path, width):
    words = ["a", "new", "x" * 90, "词", "<b>", "proof"] * 5
    picture = analysis.show(
        words,
        labels=["NOUN", "x" * 90, "O"] * 10,
        sizes=np.arange(30) % 4,
        gates={"why?" * 30: np.arange(30) % 2, "soft": np.linspace(0, 1, 30)},
        attention=np.full(30, 1 / 30),
        kept=np.arange(30) % 3 == 0,
        probabilities=np.linspace(0, 1, 30),
        title="A title " * 20,
    )
    opened(driver, picture, tmp_path, width)
    assert not browser.overflows(driver)
    cells = browser.boxes(driver, ".sq-cell")
    assert len(cells) == 7 * 30
    assert not browser.overlapping(cells)
    parts = browser.boxes(driver, ".seqmech p")
    assert not browser.overlapping(parts + cells)
    inside = browser.boxes(driver, ".sq-token, .sq-number, .sq-label")
    assert all(0 <= box[1] and box[3] <= width for box in inside)


@pytest.mark.parametrize("width", [320, 1100])
def test_curves_fill_the_width_and_have_dots_at_their_steps(
    driver, tmp_path, width
):
    kept = np.arange(300) % 100 == 50
    opened(driver, analysis.show(np.sin(np.arange(300.0)), kept=kept), tmp_path)
    browser.resize(driver, width)
    assert not browser.overflows(driver)
    (panel,) = browser.boxes(driver, ".sq-panel svg")
    (line,) = browser.boxes(driver, ".sq-line")
    (dots,) = browser.boxes(driver, ".sq-dots")
    assert panel[3] - panel[1] > width / 2
    assert (line[1], line[3]) == pytest.approx((panel[1], panel[3]), abs=4)
    ends = [panel[1] + (panel[3] - panel[1]) * t / 299 for t in (50, 250)]
    assert (dots[1], dots[3]) == pytest.approx(ends, abs=4)


def test_lines_run_in_the_direction_of_their_first_letter(driver, tmp_path):
    for text, seen in (("שלום!", "!םולש"), ("(שלום", "םולש("), ("ab!", "ab!")):
        picture = analysis.show(text, sizes=[2] + [1] * (len(text) - 1))
        opened(driver, picture, tmp_path)
        placed = sorted(browser.boxes(driver, ".sq-token"), key=lambda b: b[1])
        assert "".join(box[0] for box in placed) == seen


def test_bars_are_as_long_as_the_field(driver, tmp_path):
    opened(driver, analysis.show("abcdef", sizes=[4] + [0] * 5), tmp_path)
    cells = browser.boxes(driver, ".sq-cell")
    pieces = browser.boxes(driver, ".sq-lanes i")
    assert len(pieces) == 4
    first, last = cells[0], cells[3]
    assert first[1] < pieces[0][1] < first[3]
    assert last[1] < pieces[-1][3] <= last[3]
    for before, after in zip(pieces, pieces[1:]):
        assert after[1] == pytest.approx(before[3], abs=0.5)
        assert after[2] == before[2]


def test_strings_do_not_run_and_nothing_is_fetched(driver, tmp_path):
    hostile = "</style><script>document.title = 'ran'</script><img src=/x>"
    picture = analysis.show(
        [hostile, "b"], gates={hostile: [1, 0]}, title=hostile
    )
    browser.requested(driver)
    opened(driver, picture, tmp_path)
    assert driver.title == hostile
    assert browser.boxes(driver, ".sq-token")[0][0] == hostile
    assert browser.requested(driver) == {(tmp_path / "picture.html").as_uri()}
