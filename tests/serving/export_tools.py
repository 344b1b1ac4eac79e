"""What tests of exports share: their files, and the C program to run them."""

import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_seqmech.serving import _fresh_process


def load(path):
    return tf.saved_model.load(str(path)).signatures["serving_default"]


def answer_here(path, example) -> dict[str, dict[str, np.ndarray]]:
    """In place of the fresh process, where it is not what a test is about."""
    signatures = tf.saved_model.load(str(path)).signatures
    return _fresh_process.answers(signatures, example)


def signature_proto(path, name="serving_default"):
    """A signature as it stands in the file."""
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString((path / "saved_model.pb").read_bytes())
    return saved_model.meta_graphs[0].signature_def[name]


def compile_loader(directory) -> pathlib.Path:
    """`load_saved_model.c`, linked against pip's TensorFlow."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    libraries = pathlib.Path(tf.sysconfig.get_lib())
    program = directory / "load_saved_model"
    result = subprocess.run(
        [
            "gcc",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            program,
            pathlib.Path(__file__).with_name("load_saved_model.c"),
            f"-I{tf.sysconfig.get_include()}",
            # By full path: pip's TensorFlow lacks the names `-l` looks for.
            libraries / "libtensorflow_cc.so.2",
            libraries / "libtensorflow_framework.so.2",
            f"-Wl,-rpath,{libraries}",
        ],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return program


class Conversation:
    """What the C program is to do, and what it answered."""

    def __init__(self):
        self.commands = []
        self.requests = []

    def load(self, path, signature="serving_default"):
        self.proto = signature_proto(path, signature)
        self.commands.append(f"load {path}")

    def ask(self, feeds: dict[str, np.ndarray]):
        """Asks the model loaded last for all its outputs."""
        for name, array in feeds.items():
            numbers = [tf.as_dtype(array.dtype).as_datatype_enum, array.ndim]
            numbers += [*array.shape, *map(_word, array.flat)]
            tensor = self.proto.inputs[name].name
            self.commands.append(f"feed {tensor} {' '.join(map(str, numbers))}")
        names = sorted(self.proto.outputs)
        self.commands += [f"fetch {self.proto.outputs[n].name}" for n in names]
        self.commands.append("run")
        self.requests.append(names)

    def run(self, program) -> list[dict[str, np.ndarray] | str]:
        """A dict of outputs, or an error's text, for each request."""
        result = subprocess.run(
            [program],
            input="\n".join(self.commands),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr[-3000:]
        lines = iter(result.stdout.splitlines())
        answers = []
        for names in self.requests:
            verdict = next(lines)
            if verdict == "ok":
                answers.append({name: _array(next(lines)) for name in names})
            else:
                answers.append(verdict.removeprefix("error "))
        assert not list(lines)
        return answers


def _word(value) -> str:
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    return (
        f"{value:.17g}" if isinstance(value, np.floating) else str(int(value))
    )


def _array(line) -> np.ndarray:
    head, _, values = line.partition(":")
    number, *shape = map(int, head.split())
    dtype = tf.as_dtype(number).as_numpy_dtype
    if dtype is object:
        values = [bytes.fromhex(v[1:]) for v in values.split()]
    else:
        values = np.array(values.split(), "float64").astype(dtype)
    return np.array(values, dtype).reshape(shape)
