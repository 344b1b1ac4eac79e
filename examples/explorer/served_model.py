"""A SavedModel in a folder of versions, asked as a server would ask it."""

import time
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from examples.common.exports import newest


class Refused(ValueError):
    """What is asked has no answer; the message says why, in sentences."""


class NotTaken(Refused):
    """The model does not take the inputs."""


class Outputs(NamedTuple):
    """What a model returned.

    Attributes:
        values: Arrays by name.
        milliseconds: It took.
    """

    values: dict[str, np.ndarray]
    milliseconds: float


class ServedModel:
    """The newest SavedModel of a folder; it is loaded when first asked.

    Args:
        directory: Its subfolders are versions, as TensorFlow Serving has them.
        command: What makes it.
        outputs: The names of what it must return.
        text_ops: Whether it has ops of TensorFlow Text.
    """

    def __init__(
        self,
        directory: Path,
        command: str,
        outputs: tuple[str, ...],
        text_ops: bool = False,
    ):
        self.directory = directory
        self.command = command
        self.outputs = outputs
        self.text_ops = text_ops
        self._loaded: Any = None

    def ask(self, **inputs: tf.Tensor) -> Outputs:
        """Runs the model.

        Raises:
            Refused: If there is no model, or it does not take the inputs.
        """
        if self._loaded is None:
            self._loaded = self._load()
            # The first run takes longer than all others.
            self._run(inputs)
        return self._run(inputs)

    def _load(self) -> Any:
        if self.text_ops:
            try:
                import tensorflow_text  # noqa: F401
            except ImportError:
                raise Refused(
                    "This model needs TF Text: "
                    "`pip install 'keras_seqmech[text]'` installs it."
                ) from None
        path = newest(self.directory)
        if path is None:
            raise Refused(
                f"There is no model in {self.directory} yet. "
                f"`{self.command}` trains and exports one."
            )
        try:
            loaded = tf.saved_model.load(str(path))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise Refused(f"{path} cannot be loaded: {error}") from None
        signature = loaded.signatures.get("serving_default")
        names = set() if signature is None else {*signature.structured_outputs}
        if not names.issuperset(self.outputs):
            raise Refused(
                f"The model in {path} returns {sorted(names)}; the page needs "
                f"{sorted(self.outputs)}. `{self.command}` makes one that does."
            )
        return loaded

    def _run(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        start = time.perf_counter()
        try:
            found = self._loaded.signatures["serving_default"](**inputs)
        except (TypeError, ValueError, tf.errors.OpError):
            raise NotTaken("The model does not take this input.") from None
        values = {name: value.numpy() for name, value in found.items()}
        return Outputs(values, 1000 * (time.perf_counter() - start))
