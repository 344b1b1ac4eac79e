"""The content of an export, read from its files without loading it."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping

import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.core.protobuf import saved_model_pb2

from keras_seqmech.serving import graph
from keras_seqmech.serving import layout

_OPS_IN_REPORT = 8


@dataclasses.dataclass(frozen=True)
class Signature:
    """One way to call an export.

    Attributes:
        inputs: `tf.TensorSpec`s by name; None is a free axis.
        outputs: `tf.TensorSpec`s of the outputs, likewise.
        ops: Number of nodes by type of op, the most frequent first. It counts
            those that the outputs depend on, a function's nodes once.
    """

    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]
    ops: dict[str, int]

    @property
    def custom_ops(self) -> list[str]:
        """Ops that are not TensorFlow's own, such as TensorFlow Text's."""
        return sorted(filter(graph.is_custom, self.ops))

    @property
    def random_ops(self) -> list[str]:
        """Ops that draw random numbers; without any, answers repeat."""
        return sorted(filter(graph.draws, self.ops))


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What `inspect` found; `str` of it is a report.

    Attributes:
        path: Directory of the version.
        signatures: Ways to call it by name, `serving_default` among them.
        size: Bytes of all files.
        warmup_requests: Number of warm-up requests, which a server runs first.
        tensorflow: Version of TensorFlow that wrote it.
    """

    path: pathlib.Path
    signatures: dict[str, Signature]
    size: int
    warmup_requests: int
    tensorflow: str

    @property
    def needs_custom_ops(self) -> bool:
        """Whether it loads only after an import, as of TensorFlow Text."""
        return any(s.custom_ops for s in self.signatures.values())

    @property
    def is_deterministic(self) -> bool:
        """Whether nothing in it draws random numbers."""
        return not any(s.random_ops for s in self.signatures.values())

    def __str__(self) -> str:
        """The report."""
        lines = [
            f"SavedModel {self.path}, by TensorFlow {self.tensorflow}",
            f"size: {self.size:,} bytes",
            f"warm-up requests: {self.warmup_requests or 'none'}",
        ]
        # `export` gives one function two names.
        names = list(self.signatures)
        while names:
            signature = self.signatures[names[0]]
            same = [n for n in names if self.signatures[n] == signature]
            names = [n for n in names if n not in same]
            lines += [f"signature {', '.join(same)}", *_describe(signature)]
        return "\n".join(lines)


def _describe(signature: Signature) -> Iterator[str]:
    for title, specs in (
        ("inputs", signature.inputs),
        ("outputs", signature.outputs),
    ):
        yield f"  {title}"
        for name, spec in specs.items():
            yield f"    {name}: {spec.dtype.name} {_shape(spec)}"
    counts = [f"{op} {count}" for op, count in signature.ops.items()]
    if len(counts) > _OPS_IN_REPORT:
        others = len(counts) - _OPS_IN_REPORT
        counts = [*counts[:_OPS_IN_REPORT], f"{others} others"]
    yield f"  ops: {sum(signature.ops.values())}, {', '.join(counts)}"
    if signature.custom_ops:
        yield (
            f"  needs ops that TensorFlow lacks: "
            f"{', '.join(signature.custom_ops)}; if they are TensorFlow "
            "Text's, load it after `import tensorflow_text`"
        )
    else:
        yield "  needs no ops but TensorFlow's own"
    if signature.random_ops:
        yield (
            f"  draws random numbers: {', '.join(signature.random_ops)}; "
            "answers may change from request to request"
        )
    else:
        yield "  deterministic: nothing in it draws random numbers"


def _shape(spec: tf.TensorSpec) -> str:
    if spec.shape.rank is None:
        return "of any shape"
    axes = ["?" if axis is None else str(axis) for axis in spec.shape]
    return f"({', '.join(axes)})"


def inspect(path: str | os.PathLike) -> Inspection:
    """Reads the signatures, ops and size of an export.

    It reads `saved_model.pb` and the names and sizes of the other files. It
    loads no variable and creates no op, so models may be of any size, and
    have ops that are unknown here.

    Args:
        path: Directory of a version, as `export_model` returns it, or of any
            SavedModel of TensorFlow 2.

    Returns:
        An `Inspection`: print it.

    Raises:
        ValueError: If there is no SavedModel with the tag `serve`, or it is
            damaged.

    Example:

    >>> import keras, tempfile
    >>> from keras_seqmech import MaxPooling
    >>> from keras_seqmech import serving
    >>> tokens = keras.Input((None, 3), name="tokens")
    >>> model = keras.Model(tokens, {"sentence": MaxPooling()(tokens)})
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     found = serving.inspect(serving.export_model(model, directory))
    >>> print(found)
    SavedModel ...
    size: ... bytes
    warm-up requests: none
    signature serve, serving_default
      inputs
        tokens: float32 (?, ?, 3)
      outputs
        sentence: float32 (?, 3)
      ops: ...
      needs no ops but TensorFlow's own
      deterministic: nothing in it draws random numbers
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(
            "Argument `path` must be a string or a path. "
            f"Received: path={path!r}"
        )
    path = pathlib.Path(path)
    meta_graph = _read(path)
    return Inspection(
        path=path,
        signatures={
            name: Signature(
                _specs(proto.inputs),
                _specs(proto.outputs),
                graph.count_ops(
                    meta_graph.graph_def,
                    [info.name for info in proto.outputs.values()],
                ),
            )
            for name, proto in sorted(meta_graph.signature_def.items())
            # Every SavedModel has one for its restoration.
            if not name.startswith("__")
        },
        size=sum(f.stat().st_size for f in path.rglob("*") if f.is_file()),
        warmup_requests=_count_warmup_requests(path),
        tensorflow=meta_graph.meta_info_def.tensorflow_version,
    )


def _read(path: pathlib.Path) -> meta_graph_pb2.MetaGraphDef:
    file = path / "saved_model.pb"
    if not file.is_file():
        raise _no_saved_model(path, "there is no file saved_model.pb")
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(file.read_bytes())
    except message.DecodeError as error:
        raise _no_saved_model(path, "saved_model.pb is damaged") from error
    for meta_graph in saved_model.meta_graphs:
        if "serve" in meta_graph.meta_info_def.tags:
            return meta_graph
    raise _no_saved_model(path, "saved_model.pb has nothing tagged `serve`")


def _no_saved_model(path: pathlib.Path, reason: str) -> ValueError:
    versions = sorted(layout.versions(path))
    if versions:
        reason += f"; it holds versions {versions}: give one of them"
    return ValueError(
        "Argument `path` must be the directory of a SavedModel. "
        f"Received: path={str(path)!r}; {reason}"
    )


def _specs(
    infos: Mapping[str, meta_graph_pb2.TensorInfo],
) -> dict[str, tf.TensorSpec]:
    return {
        name: tf.TensorSpec(
            tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype), name
        )
        for name, info in sorted(infos.items())
    }


def _count_warmup_requests(path: pathlib.Path) -> int:
    file = path / layout.WARMUP
    if not file.exists():
        return 0
    try:
        return sum(1 for _ in tf.data.TFRecordDataset(str(file)))
    except tf.errors.DataLossError as error:
        reason = f"its {layout.WARMUP} is damaged"
        raise _no_saved_model(path, reason) from error
