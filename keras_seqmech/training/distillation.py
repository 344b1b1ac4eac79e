"""A student that learns to reproduce a teacher's sentence embedding.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 2.2.4.
"""

import keras
from keras import ops

from keras_seqmech.layers.sublayers import sublayers
from keras_seqmech.ops.precision import score_dtype
from keras_seqmech.training.gradient_directed import GradientDirectedModel


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
    loss, plus what the student's layers add to it. `fit(x)` needs no targets;
    sample weights do, for Keras drops them where there is no `y`. With
    `fit(x, y)` and a classifier, compiled metrics compare y with the
    classifier's outputs. `evaluate` reports the same loss, `predict` gives
    `call`'s outputs and does not run the teacher. To export or hand on a
    functional student, take
    `keras.Model(student.input, classifier(student.output))`, which does not
    have the teacher within.

    Teacher and classifier are frozen (`trainable` is set to False on the
    given models, and so on layers that the student shares with them), run in
    inference mode, and are saved with the model. In a loaded model, layers
    that a functional student and teacher share are shared again; only layers
    of the two themselves can be, not those of models nested in them.

    With a functional student and a teacher that is built, so is the model.
    Otherwise call it on a batch before loading weights or using
    `BackupAndRestore`.

    Args:
        student: Model from inputs to an embedding `(batch, e)`.
        teacher: Trained model from the same inputs to one of the same size.
            Of a `GradientDirectedModel`, the plain model is kept.
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
            share a layer in a way that could not be saved; in `compile`, if a
            loss is given.

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
        **kwargs,
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
        if isinstance(teacher, GradientDirectedModel):
            teacher = keras.Model(
                teacher.input, teacher.output, name=teacher.name
            )
        _check_shared(student, teacher, classifier)
        super().__init__(**kwargs)
        self.student = student
        self.teacher = teacher
        self.classifier = classifier
        self._last_call = (None, None)
        self._freeze()
        if getattr(student, "inputs", None) and teacher.built:
            is_sequential = isinstance(student, keras.Sequential)
            self(student.inputs[0] if is_sequential else student.input)
            self._freeze()

    @property
    def frozen_parts(self) -> list[keras.Layer]:
        """Teacher and classifier, if there is one."""
        return [p for p in (self.teacher, self.classifier) if p is not None]

    @keras.Model.trainable.setter
    def trainable(self, value):
        keras.Model.trainable.fset(self, value)
        self._freeze()

    def _freeze(self):
        for part in self.frozen_parts:
            part.trainable = False
            # Keras skips the line above where it says False already.
            for variable in part.variables:
                variable.trainable = False

    def call(self, inputs, training=None):
        if not self.teacher.built:
            self.teacher(inputs, training=False)
            self._freeze()
        embedding = self.student(inputs, training=training)
        if self.classifier is None:
            return embedding
        outputs = self.classifier(embedding, training=False)
        self._last_call = (outputs, embedding)
        return outputs

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        if loss is not None:
            raise ValueError(
                "Argument `loss` must be None: a `DistillationModel` has its "
                f"own. Received: loss={loss!r}"
            )
        super().compile(optimizer, **kwargs)

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        embedding = self._embedding(x, y_pred, training)
        # Before the teacher runs and puts its own losses into shared layers.
        added = self.student.losses
        target = self.teacher(x, training=False)
        _check_embeddings(embedding, target)
        dtype = score_dtype(keras.backend.standardize_dtype(embedding.dtype))
        distance = keras.losses.MeanSquaredError(dtype=dtype)
        # A tape watches frozen variables too: no way back through the teacher.
        loss = distance(
            ops.stop_gradient(target), embedding, sample_weight=sample_weight
        )
        added = sum(ops.cast(ops.sum(part), dtype) for part in added)
        # With a distribution strategy, losses are summed over replicas.
        return loss + added / self.distribute_strategy.num_replicas_in_sync

    def _embedding(self, x, y_pred, training):
        """The embedding that outputs were made of."""
        if self.classifier is None:
            return y_pred
        outputs, embedding = self._last_call
        if y_pred is outputs:
            return embedding
        return self.student(x, training=training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if y is None and any(m.name == "compile_metrics" for m in self.metrics):
            raise ValueError(
                "Compiled `metrics` need targets `y`. Received: y=None"
            )
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "student": serialize(self.student),
            "teacher": serialize(self.teacher),
            "classifier": serialize(self.classifier),
            "shared_layers": _shared_layers(self.student, self.teacher),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
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


def _shared_layers(student, teacher):
    """Names of the layers that two functional models have in common."""
    if not all(getattr(part, "outputs", None) for part in (student, teacher)):
        return []
    return [
        layer.name
        for layer in student.layers
        if any(layer is other for other in teacher.layers)
    ]


def _layers(part, without=()):
    """All layers of a part but those that only `without` leads to."""
    return {
        id(inner): inner
        for layer in (part.layers if without else [part])
        if layer.name not in without
        for inner in sublayers(layer)
    }


def _check_shared(student, teacher, classifier):
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
            "Arguments `student`, `teacher` and `classifier` must not share "
            "layers with weights, or it must be as layers of a functional "
            "student and teacher themselves, not of models nested in them. "
            "Share such a layer without the model around it, or clone it "
            "(`from_config(layer.get_config())`, then `set_weights`). "
            f"Received: parts that share {sorted(names)}"
        )


def _check_embeddings(student, teacher):
    """Refuses outputs of a student and a teacher that do not match."""
    student, teacher = (
        [tuple(tensor.shape) for tensor in keras.tree.flatten(outputs)]
        for outputs in (student, teacher)
    )
    sizes = {shape[-1] for shape in student + teacher if shape} - {None}
    fits = all(
        len(shapes) <= 1 and all(len(shape) == 2 for shape in shapes)
        for shapes in (student, teacher)
    )
    if not fits or len(sizes) > 1:
        raise ValueError(
            "Arguments `student` and `teacher` must put out one embedding "
            "(batch, features) each, of the same size. Received: student with "
            f"output shapes {student}, teacher with output shapes {teacher}"
        )
