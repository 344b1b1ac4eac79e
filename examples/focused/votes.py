"""How many votes to read, chosen after training.

    python -m examples.focused.votes --seeds 0 1 2

Of 48 votes, yes or no, 12 are on the topic that is asked. Each shows how often
its kind is right: in 55, 65, 75 or 95 of 100 cases. The more are read, the
surer is the answer: which ones are worth it depends on the weight of what is
read. A gate, or a subsample, decides at each vote, and a sum of what is read
answers. One model that takes the weight as an input (`one gate`, `one
subsample`) stands beside a model trained for each weight (`gate`,
`subsample`), and beside the best answer that there is from the votes of the
most reliable kinds (`best`: the weight is the least reliability).
"""

import argparse
import functools
from typing import NamedTuple

import keras
import numpy as np
from keras import layers
from keras import ops

import keras_seqmech as seqmech
from examples.common import program

VOTES, TOPICS = 48, 4
RIGHT = np.array([0.55, 0.65, 0.75, 0.95])
LEAST, MOST = 0.03, 10.0
MODELS = ("best", "one gate", "gate", "one subsample", "subsample")
TESTED = 4000


class Examples(NamedTuple):
    """Votes `(batch, 48)`, of what is asked `(batch,)`, and answers."""

    votes: np.ndarray  # The topic, the kind and the vote as one number.
    asked: np.ndarray
    answers: np.ndarray

    @property
    def yes(self) -> np.ndarray:
        """Whether each vote is a yes."""
        return self.votes % 2 == 1

    @property
    def right(self) -> np.ndarray:
        """How often votes of this kind are right."""
        return RIGHT[self.votes // 2 % len(RIGHT)]

    @property
    def counts(self) -> np.ndarray:
        """Whether each vote is on the topic that is asked."""
        return self.votes // (2 * len(RIGHT)) == self.asked[:, None]


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    weights = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    add("--weights", nargs="+", type=float, default=weights)


def cases(args: argparse.Namespace) -> program.Cases:
    """Of each model its weights; the best answer has kinds of votes."""
    for model in args.models:
        weights = RIGHT if model == "best" else args.weights
        yield from program.grid(
            model=[model], weight=map("{:g}".format, weights)
        )


def run(own: program.Run) -> dict[str, str]:
    """The accuracy, and the share of the votes that were read."""
    name, weight, args = own.key["model"], float(own.key["weight"]), own.args
    examples = draw(TESTED, 2 * own.seed + 1)
    if name == "best":
        accuracy, read = best(examples, weight)
    else:
        own_weight = None if name.startswith("one ") else weight
        model = trained(
            *(name.removeprefix("one "), own_weight, own.seed),
            *(args.epochs, args.train_size, args.units),
        )
        accuracy, read = test(model, examples, weight)
    return {"accuracy": f"{100 * accuracy:.1f}", "read": f"{100 * read:.1f}"}


def draw(count: int, seed: int) -> Examples:
    """Draws votes; those on a topic are right as often as their kinds say."""
    random = np.random.default_rng(seed)
    each = np.repeat(np.arange(TOPICS), VOTES // TOPICS)
    topics = random.permuted(np.tile(each, (count, 1)), axis=1)
    kinds = random.integers(len(RIGHT), size=topics.shape)
    truth = random.integers(2, size=(count, TOPICS))
    wrong = random.random(topics.shape) >= RIGHT[kinds]
    votes = np.take_along_axis(truth, topics, axis=1) ^ wrong
    asked = random.integers(TOPICS, size=count)
    return Examples(
        (topics * len(RIGHT) + kinds) * 2 + votes,
        asked,
        truth[np.arange(count), asked],
    )


def best(examples: Examples, least: float) -> tuple[float, float]:
    """Accuracy and share read of the likelier answer, given some kinds.

    Votes count as the logarithm of their odds.
    """
    read = examples.counts & (examples.right >= least)
    odds = np.log(examples.right / (1 - examples.right))
    total = np.sum(np.where(examples.yes, odds, -odds) * read, axis=1)
    tie = np.isclose(total, 0)
    right = np.where(tie, 0.5, (total > 0) == examples.answers)
    return float(right.mean()), float(read.mean())


@functools.lru_cache(maxsize=1)
def trained(
    reads: str,
    weight: float | None,
    seed: int,
    epochs: int,
    train_size: int,
    units: int,
) -> keras.Model:
    """A trained model; without a weight, it takes one."""
    model = build(reads, weight, units)
    adam = keras.optimizers.Adam(5e-3, global_clipnorm=1.0)
    model.compile(adam, "sparse_categorical_crossentropy")
    examples = draw(train_size, 2 * seed)
    reading = weight or "own"
    explore = seqmech.ExploreThenCommit(entropy=1.0, reading=reading)
    model.fit(
        inputs_of(model, examples, 1.0),  # Training draws other weights.
        examples.answers,
        64,
        epochs,
        verbose=0,
        callbacks=[explore],
    )
    return model


def build(reads: str, weight: float | None, units: int) -> keras.Model:
    """Votes and the question in, the probability of each answer out."""
    votes = keras.Input((VOTES,), dtype="int32", name="votes")
    asked = keras.Input((), dtype="int32", name="asked")
    inputs, penalties, given = [votes, asked], None, None
    if weight is None:
        inputs.append(keras.Input((), name="weight"))
        given = seqmech.ReadingWeight(LEAST, MOST)(inputs[2])
    else:
        penalties = seqmech.DecisionPenalties(reading=weight)
    x = layers.Embedding(2 * len(RIGHT) * TOPICS, units)(votes)
    topic = layers.Embedding(TOPICS, units)(asked)
    values = layers.Dense(units)(x)
    if reads == "gate":
        gate = seqmech.BoundaryGate(units, penalties=penalties, name="decides")
        gates = gate(x, topic, weight=given)
        summed = ops.sum(gates[..., None] * values, axis=1)
    else:
        both = ops.concatenate([x, layers.RepeatVector(VOTES)(topic)], axis=-1)
        hidden = layers.Dense(units, activation="relu")(both)
        emission = seqmech.EmissionProbabilities(0.3)(hidden, weight=given)
        subsample = seqmech.ExpectedSubsample(
            VOTES // TOPICS + 4, penalties=penalties, name="decides"
        )
        summed = ops.sum(subsample(values, emission, weight=given), axis=1)
    found = layers.Dense(units, activation="relu")(
        ops.concatenate([summed, topic], axis=-1)
    )
    return keras.Model(inputs, layers.Dense(2, activation="softmax")(found))


def inputs_of(
    model: keras.Model, examples: Examples, weight: float
) -> list[np.ndarray]:
    """What a model takes."""
    weights = np.full(len(examples.asked), weight, "float32")
    return [examples.votes, examples.asked, weights][: len(model.inputs)]


def test(
    model: keras.Model, examples: Examples, weight: float
) -> tuple[float, float]:
    """Accuracy, and the share of votes that were read."""
    inputs = inputs_of(model, examples, weight)
    found = model.predict(inputs, batch_size=500, verbose=0).argmax(axis=-1)
    decided = seqmech.analysis.decisions(model, inputs, 500)["decides"]
    if "gates" in decided:
        read = decided["gates"]
    else:
        read = decided["emission"].sum(axis=1)
    return float(np.mean(found == examples.answers)), float(read.mean())


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/votes.csv",
    options=options,
    key=("model", "weight", "seed", "settings"),
    cases=cases,
    numbers={"epochs": 20, "train_size": 10000, "units": 32},
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
