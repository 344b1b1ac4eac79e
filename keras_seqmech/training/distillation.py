"""A student that learns to reproduce a teacher's sentence embedding."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.core import graph
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.training.network_model import PartsModel
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class DistillationModel(PartsModel):
    r"""Teaches a student the embedding of a frozen teacher.

    $$\ell = \frac{1}{e} \lVert s(x) - m(x) \rVert^2$$

    with $s(x)$ the student's and $m(x)$ the teacher's embedding `(batch, e)`
    of the same inputs; mean over the batch, weighted by sample weights. This
    is the thesis' "teacher forcing": an LSTM's last state learns what a
    max-pooled LSTM, trained before, makes of a text. (The thesis prints
    $\lVert s(x) - m(x) \rVert$ and calls it the mean squared error; here it
    is the latter.)

    `compile(optimizer, metrics=[...])` takes no loss: the distance is the
    loss, plus what the student's layers add to it. `fit(x)` needs no targets,
    except with sample weights, which Keras drops where there is no `y`, and
    with metrics, which compare y with the outputs. `predict` does not run the
    teacher. To export a functional student alone, take
    `keras.Model(student.input, classifier(student.output))`.

    Only the student's weights are trained. Teacher and classifier stay as they
    are, run in inference mode, and are saved with the model. Student, teacher
    and classifier may not share layers with weights.

    Args:
        student: Model from inputs to an embedding `(batch, e)`.
        teacher: Trained model from the same inputs to one of the same size.
        classifier: Layer or model from an embedding to outputs, such as the
            teacher's own head. If None, outputs are the student's embedding.
        **kwargs: Base model keyword arguments, such as `name`.

    Call arguments:
        inputs: What student and teacher take, such as
            `{"tokens": ..., "mask": ...}`.
        training: Whether the student runs in training mode.

    Raises:
        ValueError: If an embedding is not of rank 2 or the sizes differ: in
            the constructor where shapes are known, else in `fit`; if parts
            share a layer with weights; in `compile`, if a loss is given.

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 2.2.4.

    Example:

    >>> def embed(pooling):
    ...     x = keras.Input((5, 3))
    ...     h = keras.layers.LSTM(4, return_sequences=True)(x)
    ...     return keras.Model(x, pooling(h))
    >>> teacher = embed(keras.layers.GlobalMaxPooling1D())  # trained before
    >>> student = embed(keras.layers.Lambda(lambda h: h[:, -1]))
    >>> model = DistillationModel(student, teacher, keras.layers.Dense(2))
    >>> model.compile("adam")
    >>> fit = model.fit(np.ones((6, 5, 3)), epochs=2, verbose=0)
    >>> model.predict(np.ones((6, 5, 3)), verbose=0).shape
    (6, 2)
    """

    parts = ("student", "teacher", "classifier")

    def __init__(
        self,
        student: keras.Model,
        teacher: keras.Model,
        classifier: keras.Layer | None = None,
        **kwargs: Any,
    ):
        parts = {"student": student, "teacher": teacher}
        if classifier is not None:
            parts["classifier"] = classifier
        _check_parts(parts)
        _check_embeddings(
            getattr(student, "outputs", []), getattr(teacher, "outputs", [])
        )
        super().__init__(**kwargs)
        self.student = student
        self.teacher = teacher
        self.classifier = classifier
        self._last_call: tuple = (None, None)
        if getattr(student, "inputs", None) and teacher.built:
            self(graph.as_functional(student).input)

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        return self.student.trainable_weights

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return self.student.trainable_variables

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not self.teacher.built:
            _run(self.teacher, inputs, training=False)
        embedding = _run(self.student, inputs, training)
        if self.classifier is None:
            return embedding
        outputs = self.classifier(embedding, training=False)
        self._last_call = (outputs, embedding)
        return outputs

    def compile(
        self, optimizer: Any = "rmsprop", loss: None = None, **kwargs: Any
    ) -> None:
        if loss is not None:
            raise ValueError(
                "Argument `loss` must be None: a `DistillationModel` has its "
                f"own. Received: loss={loss!r}"
            )
        super().compile(optimizer, **kwargs)

    def compute_loss(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        embedding = self._embedding(x, y_pred, training)
        target = _run(self.teacher, x, training=False)
        _check_embeddings(embedding, target)
        dtype = score_dtype(keras.backend.standardize_dtype(embedding.dtype))
        distance = keras.losses.MeanSquaredError(dtype=dtype)
        # Tapes watch the teacher's variables too.
        loss = distance(
            ops.stop_gradient(target), embedding, sample_weight=sample_weight
        )
        added = sum(
            ops.cast(ops.sum(part), dtype) for part in self.student.losses
        )
        # With a distribution strategy, losses are summed over replicas.
        return loss + added / self.distribute_strategy.num_replicas_in_sync

    def _embedding(self, x: Tensor, y_pred: Tensor, training: bool) -> Tensor:
        """The embedding that outputs were made of."""
        if self.classifier is None:
            return y_pred
        outputs, embedding = self._last_call
        if y_pred is outputs:
            return embedding
        return _run(self.student, x, training)


def _run(model: keras.Model, inputs: Tensor, training: bool | None) -> Tensor:
    inputs = graph.arrange_inputs(model, inputs)
    return model(inputs, training=training)


def _check_parts(parts: dict[str, keras.Layer]) -> None:
    """Refuses parts that are not layers, or that share layers with weights."""
    owners: dict[int, str] = {}
    for name, part in parts.items():
        if not isinstance(part, keras.Layer):
            raise ValueError(
                f"Argument `{name}` must be a model or layer. "
                f"Received: {name}={part!r}"
            )
        for layer in graph.sublayers(part):
            has_weights = layer.weights or not layer.built
            if has_weights and owners.setdefault(id(layer), name) != name:
                raise ValueError(
                    f"Arguments `{owners[id(layer)]}` and `{name}` may not "
                    "share layers with weights: clone the layer "
                    "(`from_config(layer.get_config())`, then `set_weights`). "
                    f"Received: {name}={part!r}, which shares {layer.name!r}"
                )


def _check_embeddings(student: Any, teacher: Any) -> None:
    """Refuses outputs of a student and a teacher that do not match."""
    students, teachers = (
        [tuple(tensor.shape) for tensor in keras.tree.flatten(outputs)]
        for outputs in (student, teacher)
    )
    sizes = {shape[-1] for shape in students + teachers if shape} - {None}
    fits = all(
        len(shapes) <= 1 and all(len(shape) == 2 for shape in shapes)
        for shapes in (students, teachers)
    )
    if not fits or len(sizes) > 1:
        raise ValueError(
            "Arguments `student` and `teacher` must return one embedding "
            "(batch, features) each, of the same size. Received: student with "
            f"output shapes {students}, teacher with output shapes {teachers}"
        )
