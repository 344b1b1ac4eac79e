"""A tagger that answers once it is confident, without learning when.

Training draws how far each character is read ahead, so that the tagger knows
all sizes; a test reads on until the most probable tag is above a threshold.
"""

import keras
from keras import layers
from keras import ops


class ConfidentTagger(layers.Layer):
    """An LSTM and a softmax over windows of which a part is read.

    Of windows `(batch, time, size, features)`, the states of a lower layer, and
    thresholds of probability `(batch,)` it returns probabilities of tags and
    how many positions were read, at least those that had arrived when the step
    before was answered. In training these are geometric.
    """

    def __init__(self, units: int, classes: int, seed: int | None = None):
        super().__init__()
        self.cell = layers.LSTMCell(units)
        self.hidden = layers.Dense(units, activation="relu")
        self.tags = layers.Dense(classes, activation="softmax")
        self.seeds = keras.random.SeedGenerator(seed)

    def build(
        self, windows_shape: tuple, before_shape: tuple, threshold_shape: tuple
    ) -> None:
        read = windows_shape[2] * windows_shape[3]
        self.hidden.build((None, None, read))
        seen = read + before_shape[-1] + self.hidden.units
        self.cell.build((None, seen))
        self.tags.build((None, None, self.cell.units))

    def call(
        self,
        windows: keras.KerasTensor,
        before: keras.KerasTensor,
        threshold: keras.KerasTensor,
        training: bool = False,
    ) -> dict[str, keras.KerasTensor]:
        """Reads sizes that are drawn, or that are enough."""
        size, width = windows.shape[2:]
        if training:
            drawn = self._draw(ops.shape(windows)[:2], size)
            features = self.features(windows, before, drawn)
            states = layers.RNN(self.cell, return_sequences=True)(features)
            return {"tags": self.tags(states), "size": drawn}
        flat = (*ops.shape(windows)[:2], size * width)
        flat = ops.reshape(windows, flat)
        level = ops.ones_like(before[..., :1]) * threshold[:, None, None]
        cell = _ReadsOn(self, size, width)
        found = layers.RNN(cell, return_sequences=True)(
            ops.concatenate([flat, before, level], axis=-1)
        )
        return {"tags": found[..., :-1], "size": found[..., -1]}

    def features(
        self,
        windows: keras.KerasTensor,
        before: keras.KerasTensor,
        size: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """What the LSTM sees of windows of which `size` positions are read."""
        read = (
            ops.arange(windows.shape[-2]) < ops.cast(size, "int32")[..., None]
        )
        read = windows * ops.cast(read, windows.dtype)[..., None]
        width = windows.shape[-2] * windows.shape[-1]
        read = ops.reshape(read, (*ops.shape(read)[:-2], width))
        return ops.concatenate([read, before, self.hidden(read)], axis=-1)

    def _draw(self, shape: tuple, size: int) -> keras.KerasTensor:
        """Geometric sizes, one to `size`."""
        rate = keras.random.uniform((shape[0], 1), 0.05, 0.95, seed=self.seeds)
        share = keras.random.uniform(shape, 1e-6, 1.0, seed=self.seeds)
        drawn = 1 + ops.floor(ops.log(share) / ops.log(1 - rate))
        return ops.clip(drawn, 1, size)


class _ReadsOn(layers.Layer):
    """The step of a `ConfidentTagger`: all sizes, the first that is enough."""

    def __init__(self, tagger: ConfidentTagger, size: int, width: int):
        super().__init__()
        self.tagger, self.size, self.width = tagger, size, width
        self.state_size = [*tagger.cell.state_size, 1]
        self.output_size = tagger.tags.units + 1
        self.built = True

    def call(
        self, inputs: keras.KerasTensor, states: list[keras.KerasTensor]
    ) -> tuple[keras.KerasTensor, list[keras.KerasTensor]]:
        """Tags and size; the last state is what has arrived, less one."""
        *states, arrived = states
        sizes = ops.arange(1, self.size + 1, dtype="float32")
        read = self.size * self.width
        windows = ops.reshape(inputs[:, :read], (-1, 1, self.size, self.width))

        def each(x: keras.KerasTensor) -> keras.KerasTensor:
            return ops.repeat(x[:, None], self.size, axis=1)

        features = self.tagger.features(
            windows,
            each(inputs[:, read:-1]),
            sizes + ops.zeros_like(windows[:, :, 0, 0]),
        )
        rows = ops.reshape(features, (-1, features.shape[-1]))
        own = [ops.reshape(each(x), (-1, x.shape[-1])) for x in states]
        output, own = self.tagger.cell(rows, own)
        tags = self.tagger.tags(output)
        tags = ops.reshape(tags, (-1, self.size, tags.shape[-1]))
        enough = ops.max(tags, axis=-1) >= inputs[:, -1:]
        enough = ops.logical_or(enough, sizes >= self.size)
        enough = ops.logical_and(enough, sizes >= arrived)
        first = ops.argmax(ops.cast(enough, "int32"), axis=-1)
        chosen = ops.one_hot(first, self.size, dtype=inputs.dtype)[..., None]

        def pick(x: keras.KerasTensor) -> keras.KerasTensor:
            x = ops.reshape(x, (-1, self.size, x.shape[-1]))
            return ops.sum(chosen * x, axis=1)

        size = ops.cast(first, inputs.dtype)[:, None] + 1
        found = ops.concatenate([pick(tags), size], axis=-1)
        return found, [*map(pick, own), size - 1]
