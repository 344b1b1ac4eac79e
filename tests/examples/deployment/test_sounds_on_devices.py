"""Sounds of words on a device: what is said there, without TensorFlow."""

import functools
import http.server
import shutil
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.deployment import sounds_for_browsers
from tests import browser

WORDS = ("decision", "thoroughly", "o'clock")
WEIGHTS = (0.002, 0.2)
# Of the program of a device: nothing else is installed there.
ALONE = """
import runpy, sys
for name in ("tensorflow", "keras", "keras_seqmech", "examples"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def speller():
    return keras.saving.load_model(sounds_for_browsers.SOUNDS / "sounds.keras")


def expected(speller, weight):
    """The sounds of each letter, of whole words; and what it waits for."""
    sounds, waits = [], []
    for word in WORDS:
        letters = tf.constant([[*word, " "]])
        found = speller({"letters": letters, "weight": tf.constant([weight])})
        sounds.append([x.decode() for x in found["sounds"][0].numpy()])
        ends = np.arange(len(word)) + found["size"][0, :-1].numpy() - 1
        ends = np.maximum.accumulate(ends)
        waits += [*(ends - np.arange(len(word)))]
    return sounds, np.mean(waits)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_program_needs_lite_rt_alone(speller, weight):
    pytest.importorskip("ai_edge_litert")
    program = sounds_for_browsers.PAGE.with_suffix(".py")
    lines = program.read_text("utf-8").splitlines()
    imported = {x.split()[1].split(".")[0] for x in lines if is_import(x)}
    assert imported == {
        "argparse",
        "ai_edge_litert",
        "json",
        "numpy",
        "pathlib",
    }
    result = subprocess.run(
        [sys.executable, "-c", ALONE, program, sounds_for_browsers.SOUNDS]
        + [" ".join(WORDS), "--weight", str(weight)],
        capture_output=True,
        check=True,
        text=True,
    )
    *lines, waited = result.stdout.splitlines()
    sounds, mean = expected(speller, weight)
    said = [x for line in lines for x in line.split() if x.isupper()]
    assert said == [x for word in sounds for x in " ".join(word).split()]
    typed = [line.split()[0] for line in lines]
    assert typed[:3] == ["d", "de", "dec"]
    assert float(waited.split()[0]) == pytest.approx(mean, abs=0.006)


def is_import(line):
    return line.startswith(("import ", "from "))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:In the future `np.object`")
@browser.needs_browser
@pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")
def test_the_page_says_the_same(speller, tmp_path):
    pytest.importorskip("onnxruntime")
    sounds_for_browsers.main(["--folder", str(tmp_path)])
    subprocess.run(
        ["npm", "install", "--no-audit", "onnxruntime-web@1"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://localhost:{server.server_port}"
        with browser.browser(tmp_path) as driver:
            driver.get(f"{address}/say_words.html")
            for weight in WEIGHTS:
                said, _ = expected(speller, weight)
                assert seen(driver, weight) == sum(said, [])
            for width in (1280, 390):
                browser.resize(driver, width)
                script = "return document.body.scrollWidth"
                assert driver.execute_script(script) <= width
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, *args):
        pass


def seen(driver, weight):
    """The sounds of each letter on the page, at a weight."""
    driver.execute_script(
        """
        const [text, weight] = arguments;
        document.getElementById("waited").textContent = "";
        document.getElementById("text").value = text;
        const slider = document.getElementById("weight");
        slider.value = Math.log10(weight);
        slider.dispatchEvent(new Event("input"));
        """,
        " ".join(WORDS),
        weight,
    )
    wanted = "document.getElementById('waited').textContent"
    browser.wait_for(
        lambda: "average" in driver.execute_script(f"return {wanted}")
    )
    script = (
        "return [...document.querySelectorAll('#letters span')]"
        ".map((x) => x.children[0].textContent)"
    )
    return driver.execute_script(script)
