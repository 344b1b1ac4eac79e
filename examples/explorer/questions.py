"""What the page asks each model, and how it shows the answer."""

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from examples.common.exports import newest
from examples.receptive_field.sounds import END
from keras_seqmech import analysis

LONGEST = 300
WEIGHTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
MOST_QUESTIONS = 6


class Refused(ValueError):
    """What is asked has no answer; the message says why, in sentences."""


class ServedModel:
    """The newest SavedModel of a folder, or a model in a `.keras` file.

    It is loaded when first asked. `command` makes one that takes and returns
    what has these `names`.
    """

    def __init__(self, directory: Path, command: str, names: tuple[str, ...]):
        self.directory = directory
        self.command = command
        self.names = names
        self._loaded: Any = None

    def ask(self, **inputs: tf.Tensor) -> tuple[dict[str, np.ndarray], float]:
        """What the model returns, by name, and the milliseconds it took."""
        if self._loaded is None:
            self._loaded = self._load()
            # The first run takes longer than all others.
            self._run(inputs)
        start = time.perf_counter()
        found = self._run(inputs)
        return found, 1000 * (time.perf_counter() - start)

    def _load(self) -> Callable[..., dict[str, tf.Tensor]]:
        is_file = self.directory.suffix == ".keras"
        path = self.directory if is_file else newest(self.directory)
        if path is None or not path.exists():
            raise Refused(
                f"There is no model in {self.directory} yet. "
                f"`{self.command}` trains and exports one."
            )
        try:
            call, names = (_saved if is_file else _exported)(path)
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise Refused(f"{path} cannot be loaded: {error}") from None
        if not names.issuperset(self.names):
            raise Refused(
                f"The model in {path} takes and returns {sorted(names)}. "
                f"`{self.command}` makes one for the page."
            )
        return call

    def _run(self, inputs: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
        try:
            found = self._loaded(**inputs)
        except (TypeError, ValueError, tf.errors.OpError):
            raise Refused(
                "The model does not take this input. It may have been trained "
                "with shorter ones, or smaller k."
            ) from None
        return {name: value.numpy() for name, value in found.items()}


def _exported(path: Path) -> tuple[Callable, set[str]]:
    """The function of a SavedModel, and the names that it has."""
    with contextlib.suppress(ImportError):
        import tensorflow_text  # noqa: F401  Some models have its ops.
    loaded = tf.saved_model.load(str(path))
    call = loaded.signatures["serving_default"]
    names = {*call.structured_input_signature[1], *call.structured_outputs}
    # A signature does not keep the variables of its model.
    return lambda **x: loaded.signatures["serving_default"](**x), names


def _saved(path: Path) -> tuple[Callable, set[str]]:
    """The function of a `.keras` file, and the names that it has."""
    model = keras.saving.load_model(path)
    call = tf.function(lambda **x: model(x), reduce_retracing=True)
    return call, {*model.input, *model.output}


class Answer(NamedTuple):
    """What the page shows: words, delay, time, and decisions."""

    says: str
    delay: str
    milliseconds: float
    picture: analysis.HtmlPicture


class Explorable(NamedTuple):
    """A model that the page can ask, with the texts of its tab."""

    name: str
    explains: str
    label: str
    example: str
    ask: Callable[[ServedModel, str, Any], Answer]  # Model, text, question.
    directory: Path
    command: str  # Makes the model.
    names: tuple[str, ...]  # What it takes and returns.
    asks_for: str = ""  # Label of the question's field; "": none.
    question: str | tuple[float, ...] = ""  # Numbers: those of a slider.
    unit: str = ""  # Of these numbers.

    def served_from(self, directory: Path) -> ServedModel:
        """The model, from a folder of exports or a `.keras` file."""
        return ServedModel(directory, self.command, self.names)


def spell(model: ServedModel, text: str, weight: float) -> Answer:
    """Sounds of words, and how long each letter's waits."""
    words = [f"{word}{END}" for word in _checked(text).lower().split()]
    wrong = re.search("[^a-z']", "".join(map(str.strip, words)))
    if wrong:
        raise Refused(f"Please type letters a to z only, not “{wrong[0]}”.")
    letters = tf.ragged.constant([*map(list, words)]).to_tensor("")
    found, milliseconds = model.ask(
        letters=letters, weight=tf.fill([len(words)], float(weight))
    )
    typed = letters.numpy() != b""
    sounds = [
        [sound.decode() for sound in own[real]]
        for own, real in zip(found["sounds"], typed)
    ]
    delay = analysis.emission_delay(found["size"], typed)[typed]
    return Answer(
        " · ".join(" ".join(filter(None, own)) for own in sounds),
        f"{delay.mean():.2f} letters on average, {delay.max():.0f} at most",
        milliseconds,
        analysis.show(
            "".join(words), labels=sum(sounds, []), sizes=found["size"][typed]
        ),
    )


def pick(model: ServedModel, text: str, questions: str) -> Answer:
    """The most frequent of the first k digits, and which digits were read."""
    digits = "".join(_checked(text).split())
    wrong = re.search("[^0-9]", digits)
    if wrong:
        raise Refused(f"Please type digits only; “{wrong[0]}” is not a digit.")
    asked = _numbers(questions, len(digits))
    found, milliseconds = model.ask(
        tokens=tf.constant([[*map(int, digits)]] * len(asked)),
        k=tf.constant(asked),
    )
    answers = found["logits"].argmax(axis=-1)
    names = [f"k = {k}" for k in asked]
    return Answer(
        "; ".join(f"{name}: {digit}" for name, digit in zip(names, answers)),
        "none; the answer comes after the last digit",
        milliseconds,
        analysis.show(
            digits,
            gates=dict(zip(names, found["gates"])),
            attention=dict(zip(names, found["focus"])),
        ),
    )


def judge(model: ServedModel, text: str, question: str = "") -> Answer:
    """The probability, after each word, that a machine made a title."""
    text = _checked(text)
    words = list(re.finditer(r"\S+", text))
    beginnings = [text[: word.end()] for word in words]
    found, milliseconds = model.ask(title=tf.constant(beginnings))
    probabilities = found["probability"]
    return Answer(
        f"machine-made with probability {100 * probabilities[-1]:.1f} %",
        "none: there is an answer after each word",
        milliseconds,
        analysis.show(
            [word.group() for word in words],
            probabilities={"machine-made": probabilities},
        ),
    )


EXPLORABLES = {
    "sounds": Explorable(
        "Sounds of a word",
        "The sounds of an English word while it is typed. The model chooses, "
        "letter by letter, how far to look ahead: it waits for one more where "
        "that makes the right sound likelier by what the slider says, or more: "
        "0.05 nats are 5 %.",
        "English words",
        "decision",
        spell,
        Path("saved_models/sounds/sounds.keras"),
        "python -m saved_models.make_sounds",
        ("letters", "weight", "sounds", "size"),
        asks_for="What a letter of waiting must save",
        question=WEIGHTS,
        unit="nats",
    ),
    "picking": Explorable(
        "The most frequent digit",
        "Which of the first k digits is the most frequent? The gates of the "
        "encoder know k, and let pass what the answer needs.",
        "Digits",
        "2728288881",
        pick,
        Path("runs/picking/export"),
        "python -m examples.focused.picking --length 10 --steps 2000 "
        "--models fhe --output runs/picking/picking.csv "
        "--export-dir runs/picking/export",
        ("tokens", "k", "logits", "gates", "focus"),
        asks_for="k: how many of the first digits count",
        question="5 10",
    ),
    "titles": Explorable(
        "Real or machine-made",
        "Is a line real, or was it made by a machine? The probability is shown "
        "after each word.",
        "A line of text",
        "Return the mean of the values of the array over the given axis",
        judge,
        Path("runs/titles/export"),
        "python -m examples.titles.classify --export-dir runs/titles/export",
        ("title", "probability"),
    ),
}


def _checked(value: str) -> str:
    """What a field holds, without spaces around it, valid in UTF-8."""
    text = value.strip()
    if not text:
        raise Refused("Type something above.")
    if len(text) > LONGEST:
        raise Refused(
            f"This text has {len(text):,} characters; please use at most "
            f"{LONGEST}."
        )
    return text.encode("utf-8", "replace").decode("utf-8")


def _numbers(value: str, most: int) -> list[int]:
    """Different whole numbers from 1 to `most`, in the order given."""
    parts = re.findall(r"[^\s,;]+", value)
    known = {str(number): number for number in range(1, most + 1)}
    wrong = [part for part in parts if part not in known]
    if wrong or not parts:
        received = f"; “{wrong[0]}” is not" if wrong else ""
        raise Refused(
            f"Please give k as whole numbers from 1 to {most}, the number of "
            f"digits{received}."
        )
    numbers = [known[part] for part in dict.fromkeys(parts)]
    if len(numbers) > MOST_QUESTIONS:
        raise Refused(f"Please give at most {MOST_QUESTIONS} different k.")
    return numbers
