"""Titles: the claims of a post that has no numbered tables."""

from examples.study import programs
from examples.study.studies import NO
from examples.study.studies import PARTLY
from examples.study.studies import YES
from examples.study.studies import Claim
from examples.study.studies import Measure
from examples.study.studies import Study
from examples.study.studies import grid
from examples.titles import classifiers

SOURCE = "titles"
# All but one, which was not run.
MODELS = tuple(
    name
    for name in classifiers.NAMES
    if name != "characters last, padding read"
)
READ_OUTS = tuple(
    name for name in MODELS if name.startswith("words ") and "," not in name
)
AGAINST = {
    **dict.fromkeys(READ_OUTS, "words max"),
    "characters max": "words max",
    "characters last": "words last",
    **{name: name.partition(",")[0] for name in MODELS if "," in name},
    "words max": "random_forest",
}
STUDIES = (
    Study(
        "titles",
        SOURCE,
        "read-outs, inputs, initial states, padding, fields",
        grid(model=("--models", MODELS)),
        (
            Measure("accuracy", "test accuracy %", scale=100),
            Measure("auc", "AUC", ".4f"),
            Measure("precision_real", "precision, real %", ".1f", 100),
            Measure("recall_real", "recall, real %", ".1f", 100),
            Measure("precision_made", "precision, machine-made %", ".1f", 100),
            Measure("recall_made", "recall, machine-made %", ".1f", 100),
            Measure("calibration_error", "calibration error %", ".1f", 100),
            Measure("seconds", "CPU seconds", ".0f"),
        ),
        (0, 1, 2),
        programs.TITLES,
        "--train-size 40000 --batch-size 128 --epochs 2 --character-epochs 5",
        minutes=1,
        data="titles",
        against=AGAINST,
    ),
)

CLAIMS = (
    Claim(
        "C12",
        SOURCE,
        "Recurrent classifiers beat those that know no order of words",
        "about 83 % against about 70 %",
        "{titles: words max_attention} to {titles: words concat} against "
        "{titles: logistic_regression} and {titles: random_forest}, and "
        "{titles: length} from the number of words alone",
        YES,
        "by less, on other data: real titles against machine-made ones, as "
        "viXra's were not to be had",
        ("titles",),
    ),
    Claim(
        "Read-out",
        SOURCE,
        "The read-out matters little, the maximum tends to be best",
        "said so",
        "last {titles: words last}, max {titles: words max}, mean {titles: "
        "words mean}, all three {titles: words concat}",
        YES,
        "all three, not the maximum alone",
        ("titles",),
    ),
    Claim(
        "Words and characters",
        SOURCE,
        "Words are slightly better than characters",
        "very slightly",
        "{titles: words max} against {titles: characters max}",
        YES,
        "by more",
        ("titles",),
    ),
    Claim(
        "Initial state",
        SOURCE,
        "A learned initial state is generally beneficial",
        "said so",
        "max {titles: words max, learned state} against {titles: words max}, "
        "last {titles: words last, learned state} against {titles: words last}",
        NO,
        "the differences have no sign",
        ("titles",),
    ),
    Claim(
        "Padding",
        SOURCE,
        "Reading padding, as the post's models do, costs nothing (our "
        "question)",
        "",
        "last {titles: words last, padding read} against {titles: words last}, "
        "max {titles: words max, padding read} against {titles: words max}",
        NO,
        "it costs accuracy, most of all with the last state",
        ("titles",),
    ),
    Claim(
        "Cells",
        SOURCE,
        "GRUs are about as good as LSTMs, and both better than vanilla RNNs",
        "said so",
        "GRU {titles: words max}, LSTM {titles: words max, lstm}, vanilla "
        "{titles: words max, simple}",
        PARTLY,
        "GRUs and LSTMs are level, and vanilla RNNs with them; titles are "
        "short",
        ("titles",),
    ),
    Claim(
        "Layers and directions",
        SOURCE,
        "More layers and both directions bring modest improvements",
        "said so",
        "one {titles: words max}, two layers {titles: words max, 2 layers}, "
        "both directions {titles: words max, both directions}",
        NO,
        "level with one layer and one direction",
        ("titles",),
    ),
    Claim(
        "Truncated backpropagation",
        SOURCE,
        "Backpropagation through chunks of a title alone is enough (our "
        "question)",
        "",
        "whole titles {titles: characters last}, chunks of 28 characters "
        "{titles: characters last, truncated}",
        PARTLY,
        "where the last state is read it costs 0.3, 0.5 and 4.6 points, but of "
        "the AUC 0.2 to 0.4 only",
        ("titles",),
    ),
)
