"""Decisions that adapt: questions beyond the documents."""

from examples.study import programs
from examples.study.studies import NO
from examples.study.studies import PARTLY
from examples.study.studies import YES
from examples.study.studies import Case
from examples.study.studies import Claim
from examples.study.studies import Measure
from examples.study.studies import Study
from examples.study.studies import grid

SOURCE = "beyond"


def _delay(directions: str, shows: str) -> Study:
    cases = [
        Case({"sizes": size, "price": ""}, f"--fixed {size} --prices")
        for size in ("1", "2", "3", "4")
    ]
    cases += [
        Case({"sizes": "adaptive", "price": price}, f"--fixed --prices {price}")
        for price in ("0.005", "0.02", "0.05")
    ]
    name = "delay" if directions == "forward" else f"delay_{directions}"
    return Study(
        name,
        SOURCE,
        shows,
        cases,
        (
            Measure("f1", "word F1"),
            Measure("look_ahead", "mean look-ahead"),
            Measure("information", "I(size; character), nats"),
            Measure("certain", "certain sizes"),
        ),
        (0, 1, 2),
        programs.DELAY,
        f"--directions {directions} --gated output",
    )


def _look_ahead(gated: str, cells: tuple[str, ...]) -> list[Case]:
    return grid(
        gated=("--gated", (gated,)),
        keys=("--keys", ("told", "alike")),
        cell=("--cells", cells),
        size_from=("--size-from", ("input", "field")),
    )


STUDIES = (
    Study(
        "look_ahead",
        SOURCE,
        "reading exactly as far as needed",
        [
            *_look_ahead("memory", ("lstm", "gru")),
            *_look_ahead("output", ("lstm",)),
        ],
        (
            Measure("accuracy", "accuracy %", ".1f"),
            Measure("size_gap_0", "size at k = 0"),
            Measure("size_gap_1", "k = 1"),
            Measure("size_gap_2", "k = 2"),
            Measure("size_elsewhere", "elsewhere"),
            Measure("certain", "certain sizes"),
        ),
        (0, 1, 2),
        programs.LOOK_AHEAD,
        "--epochs 20",
    ),
    _delay("forward", "what look-ahead is worth, read forward"),
    _delay("both", "what look-ahead is worth, read both ways"),
)

_TOLD = "look_ahead: memory, told, lstm, input"
CLAIMS = (
    Claim(
        "Look-ahead",
        SOURCE,
        "A field reads exactly as far as it must, with the default schedule",
        "",
        f"told by the key, LSTM: {{{_TOLD} | size_gap_0}}, "
        f"{{{_TOLD} | size_gap_1}}, {{{_TOLD} | size_gap_2}} at keys, "
        f"{{{_TOLD} | size_elsewhere}} elsewhere; accuracy {{{_TOLD}}}",
        YES,
        "accuracy 100 % in 36 of 36 runs; where the exact size can be chosen, "
        "sizes are 2, 3, 4 at keys and 1 elsewhere in 25 of 27 runs, and two "
        "runs read 3 where 2 suffices",
        ("look_ahead",),
    ),
    Claim(
        "Delay",
        SOURCE,
        "Choosing is worth more than reading as far everywhere",
        "",
        "word segmentation, F1: {delay: adaptive, 0.02} at a mean look-ahead "
        "of {delay: adaptive, 0.02 | look_ahead}, against {delay: 2} and "
        "{delay: 3} at {delay: 2 | look_ahead} and {delay: 3 | look_ahead} "
        "with one size for all",
        YES,
        "above the line through the fixed sizes at three prices",
        ("delay",),
    ),
    Claim(
        "Delay, both directions",
        SOURCE,
        "The same where a backward layer has seen what follows",
        "",
        "adaptive {delay_both: adaptive, 0.02}, against {delay_both: 1} at 1",
        NO,
        "looking ahead is worth nothing there, and adaptive fields read 1: "
        "{delay_both: adaptive, 0.02 - 1} points to size 1",
        ("delay_both",),
    ),
    Claim(
        "Skipping",
        SOURCE,
        "Gates open only where the answer is",
        "",
        "adding problem of length 50: squared error {skipping: focused, "
        "relaxed, 110, 0.02} with {skipping: focused, relaxed, 110, 0.02 | "
        "updates} updates",
        YES,
        "solved with 2 of 50 updates, in every seed",
        ("skipping",),
    ),
    Claim(
        "Skipping, IMDb",
        SOURCE,
        "The accuracy of Skip RNN at no more updates",
        "86.2 at 186 of 400 updates, 83.6 at 84",
        "LSTM {skipping_imdb: lstm}; sampled gates {skipping_imdb: focused, "
        "relaxed, 0.002 | drawn_accuracy} with {skipping_imdb: focused, "
        "relaxed, 0.002 | drawn_updates} and {skipping_imdb: focused, "
        "relaxed, 0.02 | drawn_accuracy} with {skipping_imdb: focused, "
        "relaxed, 0.02 | drawn_updates} of {skipping_imdb: lstm | steps} "
        "updates, hard gates {skipping_imdb: focused, relaxed, 0.02} with "
        "{skipping_imdb: focused, relaxed, 0.02 | updates}",
        PARTLY,
        "with sampled gates, at fewer updates than Skip RNN's; not with hard "
        "gates, all of which are closed: the small lower LSTM reads every "
        "word, so a few updates anywhere suffice and all probabilities stay "
        "below 0.5",
        ("skipping_imdb",),
    ),
)
