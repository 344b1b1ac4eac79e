"""The models that tables 1 and 2 compare, by the name of their recurrent part.

A cell, "rnn" or "lstm", alone or with a field: "+rf-" reads the present input
alone, "+rf" adapts, and "+rf-rl" adapts with sizes that are drawn and trained
by policy gradient, the paper's RF(RL).
"""

from typing import Any

FIELDS = ("rf-", "rf-rl", "rf")
MODELS = tuple(
    name
    for cell in ("rnn", "lstm")
    for name in (cell, *(f"{cell}+{field}" for field in FIELDS))
)


def split(model: str) -> tuple[str, str]:
    """The cell of one of `MODELS`, and its field, "" if it has none.

    >>> split("lstm+rf-")
    ('lstm', 'rf-')
    """
    cell, _, field = model.partition("+")
    return cell, field


def has_field(model: str) -> bool:
    """Whether one of `MODELS` has a receptive field.

    >>> has_field("lstm+rf-"), has_field("lstm")
    (True, False)
    """
    return bool(split(model)[1])


def field_options(field: str, max_size: int) -> dict[str, Any]:
    """Arguments of `ReceptiveFieldRNN` that one of `FIELDS` stands for.

    >>> field_options("rf-", 4)
    {'max_size': 1, 'estimator': 'relaxed'}
    """
    return {
        "max_size": 1 if field == "rf-" else max_size,
        "estimator": "reinforce" if field == "rf-rl" else "relaxed",
    }


def draws(model: str) -> bool:
    """Whether a model needs a policy gradient."""
    return split(model)[1] == "rf-rl"
