"""The classifiers of titles that are compared, by name.

Without Keras, so that they can be listed at once.
"""

from typing import NamedTuple

BASELINES = ("length", "logistic_regression", "random_forest")


class Settings(NamedTuple):
    """What a classifier is.

    Attributes:
        inputs: What a step reads: `"words"`, embedded, or `"characters"`,
            one-hot.
        cell: `"gru"`, `"lstm"` or `"simple"`.
        layers: Recurrent layers, one upon the other.
        bidirectional: Whether each reads in both directions.
        units: Of each layer and direction.
        initial_state: `"zeros"`; `"learned"`, which starts as zeros; or
            `"drawn"`, learned from normally distributed numbers on, as the
            source's.
        read_out: What of the states the classifier sees, one of `READ_OUTS`.
        field_size: Largest adaptive receptive field S; 0: plain layers.
        embedding_size: Of words; vectors that are read have a size of their
            own.
        dropout: Share of what the classifier sees that is left out in
            training.
        read_padding: Whether the steps after the end of a title are read as
            if they were real, as in the source, and not masked.
    """

    inputs: str = "words"
    cell: str = "gru"
    layers: int = 1
    bidirectional: bool = False
    units: int = 64
    initial_state: str = "zeros"
    read_out: str = "max"
    field_size: int = 0
    embedding_size: int = 256
    dropout: float = 0.0
    read_padding: bool = False


class Model(NamedTuple):
    """One of the recurrent classifiers.

    Attributes:
        settings: What it is.
        truncated: Whether it is trained through chunks of a title alone.
    """

    settings: Settings
    truncated: bool = False


MODELS: dict[str, Model] = {
    "words max": Model(Settings()),
    "words last": Model(Settings(read_out="last")),
    "words mean": Model(Settings(read_out="mean")),
    "words concat": Model(Settings(read_out="concat")),
    "words attention": Model(Settings(read_out="attention")),
    "words max_attention": Model(Settings(read_out="max_attention")),
    "characters max": Model(Settings("characters")),
    "characters last": Model(Settings("characters", read_out="last")),
    "words max, learned state": Model(Settings(initial_state="learned")),
    "words max, drawn state": Model(Settings(initial_state="drawn")),
    "words last, learned state": Model(
        Settings(initial_state="learned", read_out="last")
    ),
    "words last, drawn state": Model(
        Settings(initial_state="drawn", read_out="last")
    ),
    "words max, padding read": Model(Settings(read_padding=True)),
    "words last, padding read": Model(
        Settings(read_padding=True, read_out="last")
    ),
    "words mean, padding read": Model(
        Settings(read_padding=True, read_out="mean")
    ),
    "characters last, padding read": Model(
        Settings("characters", read_padding=True, read_out="last")
    ),
    "words max, fields": Model(Settings(field_size=3)),
    "words last, fields": Model(Settings(field_size=3, read_out="last")),
    "words max, lstm": Model(Settings(cell="lstm")),
    "words max, simple": Model(Settings(cell="simple")),
    "words max, 2 layers": Model(Settings(layers=2)),
    "words max, both directions": Model(Settings(bidirectional=True)),
    "characters last, drawn state": Model(
        Settings("characters", initial_state="drawn", read_out="last")
    ),
    "characters last, truncated": Model(
        Settings("characters", read_out="last"), truncated=True
    ),
}
NAMES = (*BASELINES, *MODELS)
