"""Titles: the claims of a post that has no numbered tables."""

from examples.study import programs
from examples.study.studies import NO
from examples.study.studies import NOT_RUN
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

PICTURES = (
    "python -m examples.titles.classify --data-dir DATA --train-size 40000 "
    "--epochs 2 --read-out last --output runs/titles --title TITLE"
)
CLAIMS = (
    Claim(
        "C12",
        SOURCE,
        "Recurrent classifiers beat those that know no order of words",
        "about 83 % against about 70 %",
        "words {titles: words max_attention} to {titles: words concat}, "
        "characters {titles: characters last} and {titles: characters max}; "
        "against {titles: logistic_regression} and {titles: random_forest}, "
        "and {titles: length} from the number of words alone",
        PARTLY,
        "GRUs over words are above a random forest, maximum {titles: words max "
        "- random_forest} in accuracy, those over characters below it, "
        "{titles: characters max - random_forest}; machine-made titles stand "
        "in for viXra's, which were not available",
        ("titles",),
    ),
    Claim(
        "Read-out",
        SOURCE,
        "The read-out matters little, the maximum tends to be best",
        "said so",
        "last {titles: words last}, max {titles: words max}, mean {titles: "
        "words mean}, all three {titles: words concat}",
        PARTLY,
        "it matters little: to the maximum the last state has {titles: words "
        "last - words max}, the mean {titles: words mean - words max}; best in "
        "every seed is all three, {titles: words concat - words max}",
        ("titles",),
    ),
    Claim(
        "Words and characters",
        SOURCE,
        "Words are slightly better than characters",
        "very slightly",
        "{titles: words max} against {titles: characters max}",
        YES,
        "by {titles: words max - characters max}",
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
        "maximum {titles: words max, learned state - words max}, last {titles: "
        "words last, learned state - words last}",
        ("titles",),
    ),
    Claim(
        "Padding",
        SOURCE,
        "Reading padding, as the post's models do, costs nothing (not a claim "
        "of the post)",
        "",
        "last {titles: words last, padding read} against {titles: words last}, "
        "max {titles: words max, padding read} against {titles: words max}",
        NO,
        "it costs accuracy: last {titles: words last, padding read - words "
        "last}, maximum {titles: words max, padding read - words max}",
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
        "GRUs and LSTMs are level, {titles: words max, lstm - words max}, and "
        "so are vanilla RNNs, {titles: words max, simple - words max}; titles "
        "are short",
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
        "two layers {titles: words max, 2 layers - words max}, both directions "
        "{titles: words max, both directions - words max}",
        ("titles",),
    ),
    Claim(
        "Truncated backpropagation",
        SOURCE,
        "Backpropagation through chunks of a title is enough (not a claim of "
        "the post)",
        "",
        "whole titles {titles: characters last}, chunks of 28 characters "
        "{titles: characters last, truncated}",
        PARTLY,
        "accuracy {titles: characters last, truncated - characters last}, AUC "
        "{titles: characters last, truncated - characters last | auc}: titles "
        "are ranked nearly as well, but one half is a worse threshold",
        ("titles",),
    ),
    Claim(
        "ROC curve",
        SOURCE,
        "ROC curve of the classifier",
        "a picture",
        "AUC of words, maximum: {titles: words max | auc}",
        PARTLY,
        "drawn for other data, real and machine-made titles",
        ("titles",),
        PICTURES,
    ),
    Claim(
        "Steps of a title",
        SOURCE,
        "The probability and the hidden units can be followed over a title",
        "pictures",
        "the same pictures",
        YES,
        "drawn for these titles",
        (),
        PICTURES,
        seeds="1",
    ),
    Claim(
        "The author's papers",
        SOURCE,
        "17 and 18 of the author's 20 papers are recognised",
        "17, 18 of 20",
        "",
        NOT_RUN,
        "their titles were not available",
    ),
)
