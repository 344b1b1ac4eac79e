"""Models in formats that run without TensorFlow: LiteRT and ONNX.

Exported by Keras' own `model.export`, for one batch size and length, and run by
the format's own runtime. `benchmarks.support_table` asks which layers survive.
"""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.serving.portable import quantize_onnx

Arrays = dict[str, np.ndarray]


def lite_rt(
    model: keras.Model,
    inputs: Arrays,
    path: pathlib.Path,
    select: bool = False,
    **converter: Any,
) -> Arrays:
    """Answers of a LiteRT model.

    Args:
        model: What to export; its inputs are a dict.
        inputs: Its inputs, whose shapes are those of the export.
        path: Where to write, without an ending.
        select: Whether ops that LiteRT lacks may be TensorFlow's own.
        converter: What else the converter is told.
    """
    sets = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if select:
        sets.append(tf.lite.OpsSet.SELECT_TF_OPS)
    file = path.with_suffix(".tflite")
    model.export(
        file,
        format="litert",
        verbose=False,
        input_signature=signature(inputs),
        target_spec={"supported_ops": sets},
        **converter,
    )
    runner = tf.lite.Interpreter(str(file)).get_signature_runner()
    return runner(**inputs)


def onnx(
    model: keras.Model,
    inputs: Arrays,
    path: pathlib.Path,
    quantize: bool = False,
) -> Arrays:
    """Answers of an ONNX model by ONNX Runtime; see `lite_rt`."""
    import onnxruntime

    file = path.with_suffix(".onnx")
    model.export(
        file, format="onnx", verbose=False, input_signature=signature(inputs)
    )
    if quantize:
        quantize_onnx(file, file)
    session = onnxruntime.InferenceSession(str(file))
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs)))


def signature(inputs: Arrays) -> list[dict[str, keras.InputSpec]]:
    """What is exported: inputs of these shapes."""
    return [
        {
            name: keras.InputSpec(dtype=str(x.dtype), shape=x.shape, name=name)
            for name, x in inputs.items()
        }
    ]


FORMATS: dict[str, Callable[..., Any]] = {
    "LiteRT": lite_rt,
    "LiteRT, select ops": functools.partial(lite_rt, select=True),
    "ONNX": onnx,
}
EIGHT_BITS: dict[str, Callable[..., Any]] = {
    "LiteRT, 8 bits": functools.partial(
        lite_rt, optimizations=[tf.lite.Optimize.DEFAULT]
    ),
    "ONNX, 8 bits": functools.partial(onnx, quantize=True),
}
