"""A student that learns to reproduce a teacher's sentence embedding.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 2.2.4.
"""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.training.network_model import NetworkModel
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class FrozenLayer(keras.layers.Layer):
    """A layer that stays as it is: never trained, always in inference mode.

    Args:
        layer: A layer or model. Its variables, also those it shares with
            others, are made non-trainable.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name`.

    Call arguments:
        inputs: What the layer takes.
    """

    def __init__(self, layer: keras.Layer, **kwargs: Any):
        super().__init__(**kwargs)
        self.layer = layer
        self.freeze()
        self.built = layer.built

    @property
    def trainable(self) -> bool:
        return False

    @trainable.setter
    def trainable(self, value: bool) -> None:
        # A model around it sets this for all of its layers.
        self.freeze()

    @property
    def metrics(self) -> list[keras.Metric]:
        # A compiled model has metrics of its own training.
        return []

    def freeze(self) -> None:
        """Makes all variables there are non-trainable."""
        self.layer.trainable = False
        # Keras skips variables of layers that were not trainable before.
        for variable in self.layer.variables:
            variable.trainable = False

    def call(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs, training=False)
        if not self.built:
            self.freeze()
        return outputs

    def get_config(self) -> dict[str, Any]:
        layer = keras.saving.serialize_keras_object(self.layer)
        return {**super().get_config(), "layer": layer}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict | None = None
    ) -> "FrozenLayer":
        layer = keras.saving.deserialize_keras_object(
            config["layer"], custom_objects=custom_objects
        )
        return cls(**{**config, "layer": layer})


@keras.saving.register_keras_serializable(package="keras_seqmech")
class DistillationModel(keras.Model):
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
    except with sample weights, which Keras drops where there is no `y`. With
    `fit(x, y)` and a classifier, compiled metrics compare y with the
    classifier's outputs. `evaluate` reports the same loss, `predict` gives
    `call`'s outputs and does not run the teacher. To export a functional
    student, take
    `keras.Model(student.input, classifier(student.output))`, which does not
    contain the teacher.

    Teacher and classifier are frozen (their variables, and those that the
    student shares with them, become non-trainable), run in inference mode, and
    are saved with the model. `student` and `teacher` may share layers with
    weights only where both are functional models and the layer is a direct
    layer of both; in a loaded model it is shared again. `classifier` may share
    none.

    With a functional student and a teacher that is built, so is the model.
    Otherwise call it on a batch before loading weights or using
    `BackupAndRestore`.

    Args:
        student: Model from inputs to an embedding `(batch, e)`.
        teacher: Trained model from the same inputs to one of the same size.
            Of a model that owns a network, such as `GradientDirectedModel`,
            the network is taken.
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
            share a layer otherwise than as above; in `compile`, if a loss is
            given.

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

    def __init__(
        self,
        student: keras.Model,
        teacher: keras.Model,
        classifier: keras.Layer | None = None,
        **kwargs: Any,
    ):
        for name, part in (("student", student), ("teacher", teacher)):
            if not isinstance(part, keras.Layer):
                raise ValueError(
                    f"Argument `{name}` must be a model or layer. "
                    f"Received: {name}={part!r}"
                )
        if classifier is not None and not isinstance(classifier, keras.Layer):
            raise ValueError(
                "Argument `classifier` must be a model, a layer or None. "
                f"Received: classifier={classifier!r}"
            )
        _check_embeddings(
            getattr(student, "outputs", []), getattr(teacher, "outputs", [])
        )
        if isinstance(teacher, NetworkModel):
            teacher = teacher.network
        if student is teacher:
            raise ValueError(
                "Argument `teacher` must be another model than `student`: it "
                f"is frozen. Received: teacher={teacher!r}, the same object"
            )
        _check_shared(student, teacher, classifier)
        super().__init__(**kwargs)
        # Before the frozen layers, so that shared layers end up frozen.
        self.student = student
        self._frozen_teacher = FrozenLayer(teacher)
        self._frozen_classifier = None
        if classifier is not None:
            self._frozen_classifier = FrozenLayer(classifier)
        self._last_call: tuple = (None, None)
        if getattr(student, "inputs", None) and teacher.built:
            is_sequential = isinstance(student, keras.Sequential)
            self(student.inputs[0] if is_sequential else student.input)

    @property
    def teacher(self) -> keras.Layer:
        return self._frozen_teacher.layer

    @property
    def classifier(self) -> keras.Layer | None:
        frozen = self._frozen_classifier
        return None if frozen is None else frozen.layer

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not self._frozen_teacher.built:
            self._frozen_teacher(inputs)
        embedding = self.student(inputs, training=training)
        if self._frozen_classifier is None:
            return embedding
        outputs = self._frozen_classifier(embedding)
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

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras asks for this method beside a `compile` of one's own.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        embedding = self._embedding(x, y_pred, training)
        # Before the teacher runs and adds its own losses to shared layers.
        added = self.student.losses
        target = self._frozen_teacher(x)
        _check_embeddings(embedding, target)
        dtype = score_dtype(keras.backend.standardize_dtype(embedding.dtype))
        distance = keras.losses.MeanSquaredError(dtype=dtype)
        # Tapes watch frozen variables too: stop the gradient at the teacher.
        loss = distance(
            ops.stop_gradient(target), embedding, sample_weight=sample_weight
        )
        added = sum(ops.cast(ops.sum(part), dtype) for part in added)
        # With a distribution strategy, losses are summed over replicas.
        return loss + added / self.distribute_strategy.num_replicas_in_sync

    def _embedding(self, x: Tensor, y_pred: Tensor, training: bool) -> Tensor:
        """The embedding that outputs were made of."""
        if self.classifier is None:
            return y_pred
        outputs, embedding = self._last_call
        if y_pred is outputs:
            return embedding
        return self.student(x, training=training)

    def compute_metrics(
        self,
        x: Tensor,
        y: Tensor | None,
        y_pred: Tensor,
        sample_weight: Tensor | None = None,
    ) -> dict[str, Tensor]:
        try:
            return super().compute_metrics(x, y, y_pred, sample_weight)
        except (AttributeError, TypeError, ValueError) as error:
            if y is not None:
                raise
            raise ValueError(
                "Compiled `metrics` need targets `y`. Received: y=None"
            ) from error

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "student": serialize(self.student),
            "teacher": serialize(self.teacher),
            "classifier": serialize(self.classifier),
            "shared_layers": _shared_layers(self.student, self.teacher),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict | None = None
    ) -> "DistillationModel":
        config = dict(config)
        shared = config.pop("shared_layers")
        for name in ("student", "teacher", "classifier"):
            config[name] = keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
        if shared:
            layers = {x: config["student"].get_layer(x) for x in shared}
            # The same graph, with the student's layers where they were shared.
            config["teacher"] = keras.models.clone_model(
                config["teacher"],
                clone_function=lambda layer: layers.get(layer.name, layer),
            )
        return cls(**config)


def _shared_layers(student: keras.Layer, teacher: keras.Layer) -> list[str]:
    """Names of the layers that two functional models have in common."""
    if not all(getattr(part, "outputs", None) for part in (student, teacher)):
        return []
    return [
        layer.name
        for layer in student.layers
        if any(layer is other for other in teacher.layers)
    ]


def _layers(
    part: keras.Layer, without: Collection[str] = ()
) -> dict[int, keras.Layer]:
    """All layers of a part but those that only `without` leads to."""
    return {
        id(inner): inner
        for layer in (part.layers if without else [part])
        if layer.name not in without
        for inner in sublayers(layer)
    }


def _check_shared(
    student: keras.Layer,
    teacher: keras.Layer,
    classifier: keras.Layer | None,
) -> None:
    """Refuses layers that would be saved in one part and missed in another."""
    shared = _shared_layers(student, teacher)
    pairs = [
        (_layers(student, shared), _layers(teacher)),
        (_layers(teacher, shared), _layers(student)),
    ]
    if classifier is not None:
        pairs += [
            (_layers(classifier), _layers(part)) for part in (student, teacher)
        ]
    names = {
        layer.name
        for some, others in pairs
        for key, layer in some.items()
        if key in others and (layer.weights or not layer.built)
    }
    if names:
        raise ValueError(
            "Arguments `student` and `teacher` may share layers with weights "
            "only where both are functional models and the layer is a direct "
            "layer of both; `classifier` may share none. Share such a layer "
            "without the model around it, or clone it "
            "(`from_config(layer.get_config())`, then `set_weights`). "
            f"Received: parts that share {sorted(names)}"
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
