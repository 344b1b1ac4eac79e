"""Models behind a stand-in for TensorFlow Serving, and clients of it."""

import contextlib

import keras
import pytest

from keras_seqmech import MaxAttentionPooling
from keras_seqmech import MaxPooling
from keras_seqmech import serving
from keras_seqmech.serving import export
from tests.serving import export_tools
from tests.serving import stand_in_server


def pooler():
    """Two inputs of two dtypes, two outputs."""
    tokens = keras.Input((None, 3), name="tokens")
    mask = keras.Input((None,), dtype="bool", name="mask")
    sentence, scores = MaxAttentionPooling(return_attention_scores=True)(
        tokens, mask=mask
    )
    outputs = {"sentence": sentence, **scores}
    return keras.Model({"tokens": tokens, "mask": mask}, outputs)


def reader():
    """Strings in, strings out, and one output alone."""
    text = keras.Input((), dtype="string", name="text")
    ids = keras.layers.TextVectorization(
        standardize=None, split="character", vocabulary=list("ab字 ")
    )(text)
    embedded = keras.layers.Embedding(9, 4)(ids)
    pooled = MaxPooling()(embedded, mask=keras.ops.not_equal(ids, 0))
    label = keras.layers.StringLookup(
        vocabulary=["是", "no"], num_oov_indices=0, invert=True
    )(keras.ops.argmax(keras.layers.Dense(2)(pooled), axis=-1))
    return keras.Model({"text": text}, {"label": label})


def tiny(factor):
    inputs = keras.Input((1,), name="x")
    return keras.Model({"x": inputs}, {"y": inputs * factor})


@contextlib.contextmanager
def serve(directory):
    """Exports models and serves them.

    Yields:
        The models by name, and a client for each protocol.
    """
    keras.utils.set_random_seed(0)
    models = {"pooler": pooler(), "reader": reader(), "older": tiny(2.0)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            export, "_serve_in_fresh_process", export_tools.answer_here
        )
        for name, model in models.items():
            serving.export_model(model, directory / name)
        serving.export_model(tiny(3.0), directory / "older")
        patch.setenv("no_proxy", "127.0.0.1")
        config = serving.models_config(
            [directory / name for name in models], versions={"older": [1, 2]}
        )
        with stand_in_server.serve(config) as (rest, rpc):
            grpc_client = serving.GrpcClient(rpc)
            clients = {
                "rest": serving.RestClient(rest),
                "grpc": grpc_client,
            }
            yield models, clients
            grpc_client.close()
