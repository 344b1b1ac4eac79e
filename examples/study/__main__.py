"""Runs the studies behind the project's results.

    python -m examples.study --list
    python -m examples.study table_1_trec --data-dir DATA
    python -m examples.study table_1_trec --report

A study belongs to a table or figure of one of the documents. Its runs are rows
of `docs/results/rows/NAME.csv`. What has a row is not repeated; a run that was
killed is taken up again; several processes may do the same study.
"""

import argparse

import pandas as pd

from examples.common import arguments
from examples.common import tables
from examples.study import pages
from examples.study import records
from examples.study import report
from examples.study import rows as rows_
from examples.study import running
from examples.study.records import Study


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__, prog="python -m examples.study")
    add = parser.add_argument
    which = "see --list; to list or report, default: all"
    add("studies", nargs="*", metavar="NAME", help=which)
    what = parser.add_mutually_exclusive_group().add_argument
    what("--list", action="store_true", help="studies, and what is left")
    what("--report", action="store_true", help="tables of the rows")
    what("--write", action="store_true", help="all pages of templates")
    add("--data-dir", type=arguments.folder, help="data sets")
    add("--seeds", nargs="+", type=int, help="these seeds only")
    add("--only", nargs="+", help="runs with all of these labels")
    args = parser.parse_args(argv)
    for name in args.studies:
        if name not in records.STUDIES:
            known = ", ".join(records.STUDIES)
            parser.error(f"NAME: must be one of {known}. Received: {name}")
    if args.list or args.report or args.write:
        return args
    if not args.studies:
        parser.error("NAME: must be given. See --list")
    for study in map(records.study, args.studies):
        if study.program is None:
            parser.error(f"NAME: by hand, of what this prints: {study.command}")
        if not any(map(wanted(args), study.runs)):
            parser.error(f"--seeds, --only: {study.name} has no such run")
    return args


def main(argv: list[str] | None = None) -> None:
    """Does what the command line asks for."""
    args = parse(argv)
    studies = [records.STUDIES[x] for x in args.studies or records.STUDIES]
    places = running.Places(data=args.data_dir)
    if args.list:
        print(listing(studies, places))
    elif args.report:
        for study in studies:
            print(f"## {study.name}: {study.shows}", end="\n\n")
            print(report.report(study, places.rows), end="\n\n")
    elif args.write:
        print("Written:", *(pages.write(places.rows) or ["nothing new"]))
    else:
        for study in studies:
            done = running.do_runs(study, places, wanted(args))
            todo = running.pending(study, places.rows, wanted(args))
            print(f"{study.name}: {done} runs done, {len(todo)} left")


def wanted(args: argparse.Namespace) -> running.Wanted:
    """Whether the command line asks for a run."""
    return lambda run: (
        (args.seeds is None or run.seed in args.seeds)
        and set(args.only or ()) <= set(run.case.labels.values())
    )


def listing(studies: list[Study], places: running.Places) -> str:
    """Markdown table of studies, and what is left of them."""
    lines = [["study", "shows", "runs left", "minutes a run", "data"]]
    for study in studies:
        todo = "rows by hand"
        if study.program is not None:
            left = len(running.pending(study, places.rows))
            todo = f"{left} of {len(study.runs)}"
        seconds = rows_.read(study, places.rows)["seconds"]
        minutes = pd.to_numeric(seconds).mean() / 60
        taken = "?" if pd.isna(minutes) else f"{minutes:.1f}"
        lines.append([study.name, study.shows, todo, taken, study.data])
    return tables.table(lines)


if __name__ == "__main__":
    main()
