"""Words on a device: what the model says there, without TensorFlow."""

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

from examples.deployment import words_for_devices
from examples.receptive_field import segmentation
from keras_seqmech.serving import _fresh_step
from tests import browser

TEXT = "returnthefirstofall"
WEIGHTS = (0.004, 0.15)
# Of the program of a device: nothing else is installed there.
ALONE = """
import runpy, sys
for name in ("tensorflow", "keras", "keras_seqmech", "examples"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:In the future `np.object`"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device")
    options = ["--texts", "400", "--epochs", "2", "--folder", str(folder)]
    words_for_devices.main(options)
    return folder


def expected(folder, file, weight):
    """Words by a loop of another writing, over a file of either format."""
    known = json.loads((folder / "words.json").read_text("utf-8"))
    ids = np.array([[known["ids"].get(x, 1) for x in TEXT]], "int32")
    run = _fresh_step.load(str(folder / file))
    state = {"ids": ids, "weight": np.array([weight], "float32")}
    found = _fresh_step.stream(run, zeros(folder), state, {"ids", "tags"})
    tags = [known["tags"][i] for i in found["tags"][0].argmax(axis=-1)]
    return segmentation.join_words(TEXT, tags)


def zeros(folder):
    """A zero row of each state, as the file names them."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "words.onnx"))
    dtypes = {"tensor(float)": "float32", "tensor(int32)": "int32"}
    return {
        x.name: np.zeros(x.shape, dtypes.get(x.type, "bool"))
        for x in session.get_inputs()
        if x.name.startswith("state_")
    }


@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_program_needs_lite_rt_alone(folder, weight):
    program = folder / "find_words.py"
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
        [sys.executable, "-c", ALONE, program, folder, TEXT]
        + ["--weight", str(weight)],
        capture_output=True,
        check=True,
        text=True,
    )
    words, waited = result.stdout.splitlines()
    assert words.split() == expected(folder, "words.tflite", weight)
    assert 0 <= float(waited.split()[0]) < 12


def is_import(line):
    return line.startswith(("import ", "from "))


@browser.needs_browser
@pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")
def test_the_page_needs_no_server(folder, tmp_path):
    subprocess.run(
        ["npm", "install", "--no-audit", "onnxruntime-web@1"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://localhost:{server.server_port}"
        with browser.browser(tmp_path) as driver:
            driver.get(f"{address}/find_words.html")
            for weight in WEIGHTS:
                words = seen_words(driver, weight)
                assert words == expected(folder, "words.onnx", weight)
            for width in (1280, 390):
                browser.resize(driver, width)
                script = "return document.body.scrollWidth"
                assert driver.execute_script(script) <= width
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, *args):
        pass


def seen_words(driver, weight):
    """The words of the page at a weight."""
    driver.execute_script(
        """
        const [text, weight] = arguments;
        document.getElementById("waited").textContent = "";
        document.getElementById("text").value = text;
        const slider = document.getElementById("weight");
        slider.value = Math.log10(weight);
        slider.dispatchEvent(new Event("input"));
        """,
        TEXT,
        weight,
    )
    wanted = "document.getElementById('waited').textContent"
    browser.wait_for(
        lambda: "average" in driver.execute_script(f"return {wanted}")
    )
    script = (
        "return [...document.querySelectorAll('#words span')]"
        ".map((x) => x.firstChild.textContent)"
    )
    return driver.execute_script(script)
