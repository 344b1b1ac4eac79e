"""Models in formats that run without TensorFlow: LiteRT and ONNX.

Exported by Keras' own `model.export`, for one batch size and length, and run by
the format's own runtime. `benchmarks.support_table` asks which layers survive.
A format is a function of a model whose inputs are a dict, of these inputs, and
of a path without an ending, that returns the answers.
"""

import functools

import keras
import tensorflow as tf

from keras_seqmech.serving import _fresh_step
from keras_seqmech.serving import portable


def lite_rt(model, inputs, path, select=False, quantize=False):
    """LiteRT, with ops of TensorFlow that it lacks or without."""
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
        optimizations=[tf.lite.Optimize.DEFAULT] if quantize else [],
    )
    runner = tf.lite.Interpreter(str(file)).get_signature_runner()
    return runner(**inputs)


def onnx(model, inputs, path, quantize=False):
    """ONNX, by ONNX Runtime."""
    file = path.with_suffix(".onnx")
    model.export(
        file, format="onnx", verbose=False, input_signature=signature(inputs)
    )
    if quantize:
        portable.quantize_onnx(file, file)
    return _fresh_step.load(str(file))(inputs)


def signature(inputs):
    """What is exported: inputs of these shapes."""
    return [
        {
            name: keras.InputSpec(dtype=str(x.dtype), shape=x.shape, name=name)
            for name, x in inputs.items()
        }
    ]


FORMATS = {
    "LiteRT": lite_rt,
    "LiteRT, select ops": functools.partial(lite_rt, select=True),
    "ONNX": onnx,
}
EIGHT_BITS = {
    f"{name}, 8 bits": functools.partial(export, quantize=True)
    for name, export in (("LiteRT", lite_rt), ("ONNX", onnx))
}
