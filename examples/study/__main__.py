"""Runs the studies behind the project's results.

    python -m examples.study --list
    python -m examples.study table_1_trec --data-dir DATA
    python -m examples.study table_1_trec --report

A study belongs to a table or figure of one of the documents: models and seeds
of one of the programs in `examples`. Its runs are rows of
`docs/results/rows/NAME.csv`, with their settings, commit and versions. What has
a row is not repeated; a run that was killed is taken up again; several
processes may do the same study, each what no other has claimed.

`--options` does or imports the same with other options of the program: rows of
their own, which are shown apart.

`--report` prints tables and verdicts from the rows, `--write` brings the
generated parts of RESULTS.md and docs/results up to date with them. `--import`
adds the runs of a file that the study's program wrote by itself, if their
settings are those of the study.
"""

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

from examples.common import locks
from examples.common import tables
from examples.common.arguments import integer
from examples.study import pages
from examples.study import registry
from examples.study import report
from examples.study import rows
from examples.study import running
from examples.study.studies import Case
from examples.study.studies import Run
from examples.study.studies import Study


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.study", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    which = "see --list; to list or report, default: all"
    add("studies", nargs="*", metavar="NAME", help=which)
    action = parser.add_mutually_exclusive_group()
    what = action.add_argument
    what("--list", action="store_true", help="studies, and what is left")
    what("--dry-run", action="store_true", help="each run that is left")
    what("--report", action="store_true", help="tables and verdicts")
    what("--write", action="store_true", help="the tables of all pages")
    what("--import", dest="file", type=Path, help="what the program wrote")
    add("--data-dir", help="see examples/common/datasets.py")
    add("--seeds", nargs="+", type=integer(0), help="these seeds only")
    add("--options", help="of the program, in place of the study's")
    add("--only", nargs="+", help="runs with all of these labels")
    add("--rows-dir", type=Path, default=rows.FOLDER, help="of the CSV files")
    add("--work-dir", type=Path, default=running.Places().work)
    add("--commit", default="", help="of imported rows")
    add("--machine", help="of imported rows; default: this one")
    add("--date", help="of imported rows; default: of the file")
    args = parser.parse_args(argv)
    unknown = [name for name in args.studies if name not in registry.STUDIES]
    if unknown:
        parser.error(
            f"NAME: must be one of {', '.join(registry.STUDIES)}. "
            f"Received: {' '.join(unknown)}"
        )
    if args.write and args.studies:
        parser.error(
            f"NAME: --write is for all studies. Received: {args.studies}"
        )
    if args.list or args.report or args.write:
        check_no_choice(parser, args)
    else:
        check_choice(parser, args)
    if not (args.list or args.dry_run or args.report or args.write):
        check_runs(parser, args)
    return args


def check_no_choice(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> None:
    """Ends the program if runs are chosen where all are shown."""
    for name in ("only", "seeds"):
        value = getattr(args, name)
        if value:
            parser.error(
                f"--{name}: not with --list, --report or --write. "
                f"Received: {' '.join(map(str, value))}"
            )


def check_choice(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> None:
    """Ends the program if no run is one of those that are asked for."""
    found = [
        run
        for name in args.studies or registry.STUDIES
        for run in running.runs(registry.STUDIES[name])
    ]
    if args.only:
        known = {x: None for run in found for x in run.case.labels.values()}
        found = [run for run in found if has_labels(run.case, args.only)]
        if not found:
            parser.error(
                "--only: must be labels that a run has, all of them, of "
                f"{', '.join(filter(None, known))}. "
                f"Received: {' '.join(args.only)}"
            )
    seeds = sorted({run.seed for run in found})
    # What is imported may have others.
    if args.seeds and not args.file and not set(args.seeds) <= set(seeds):
        parser.error(
            f"--seeds: must be of {', '.join(map(str, seeds))}. "
            f"Received: {' '.join(map(str, args.seeds))}"
        )


def check_runs(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> None:
    """Ends the program if what it is to run, or import, cannot be run."""
    if not args.studies:
        parser.error("NAME: must be given. See --list")
    if args.file and len(args.studies) > 1:
        parser.error(f"--import: for one study. Received: {args.studies}")
    if args.file:
        check_file(parser, args)
    for name in args.studies:
        study = registry.STUDIES[name]
        if study.program is None:
            parser.error(
                f"NAME: {name} has no runs that can be done one by one; its "
                "rows are written by hand from what its command prints: "
                f"{study.command}"
            )
        if study.data and args.data_dir is None:
            parser.error(
                f"--data-dir: must be given for {name}, which reads "
                f"{study.data}"
            )


def check_file(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> None:
    """Ends the program if there is nothing of a study to import."""
    program = registry.STUDIES[args.studies[0]].program
    if program is not None:
        is_there = args.file.is_file() if program.file else args.file.is_dir()
        if not is_there:
            kind = "file" if program.file else "folder"
            parser.error(
                f"--import: must be a {kind} that examples.{program.name} "
                f"wrote. Received: {args.file}"
            )


def main(argv: Sequence[str] | None = None) -> None:
    """Does what the command line asks for."""
    args = parse(argv)
    studies = [registry.STUDIES[x] for x in args.studies or registry.STUDIES]
    if args.options is not None:
        studies = [study._replace(options=args.options) for study in studies]
    places = running.Places(args.rows_dir, args.work_dir, args.data_dir)
    if args.list:
        print(listing(studies, places))
    elif args.dry_run:
        for study in studies:
            print(left(study, places, args))
    elif args.report:
        for study in studies:
            print(
                report.study_report(study, registry.CLAIMS, places), end="\n\n"
            )
    elif args.write:
        print("Written:", *(pages.write(places.rows) or ["nothing new"]))
    elif args.file:
        print(import_file(studies[0], places, args), "rows are imported")
    else:
        for study in studies:
            done = running.do_runs(study, places, wanted(args))
            left_now = running.pending(
                study, rows.read(study, places.rows), wanted(args)
            )
            print(f"{study.name}: {done} runs done, {len(left_now)} left")


def wanted(args: argparse.Namespace):
    """Whether the command line asks for a run."""

    def is_wanted(run: Run) -> bool:
        is_seed = args.seeds is None or run.seed in args.seeds
        return is_seed and has_labels(run.case, args.only or ())

    return is_wanted


def has_labels(case: Case, wanted: Sequence[str]) -> bool:
    return set(wanted) <= set(case.labels.values())


def listing(studies: Sequence[Study], places: running.Places) -> str:
    """Markdown table of studies, and what is left of them."""
    lines = [["study", "shows", "of", "runs left", "minutes a run", "data"]]
    for study in studies:
        own = rows.read(study, places.rows)
        left, runs = "rows by hand", "-"
        if study.program is not None:
            todo = running.pending(study, own)
            left = f"{len(todo)} of {len(running.runs(study))}"
            minutes = running.minutes(study, own)
            runs = "?" if minutes is None else f"{minutes:.1f}"
        lines.append(
            [study.name, study.shows, study.source, left, runs, study.data]
        )
    return tables.table(lines)


def left(study: Study, places: running.Places, args: argparse.Namespace) -> str:
    """What a call would do: each run with the program's options."""
    if study.program is None:
        return f"{study.name}: {study.command}"
    own = rows.read(study, places.rows)
    todo = running.pending(study, own, wanted(args))
    lines = [f"{study.name}: {running.remaining(study, todo, own)}"]
    for run in todo:
        options = study.arguments(run.case, run.seed, places.data or "DATA")
        program = f"examples.{study.program.name}"
        claim = locks.owner(running.claim_file(study, run, places))
        note = f"  # now: {claim}" if claim else ""
        lines.append(f"  {program} {' '.join(options)}{note}")
    return "\n".join(lines)


def import_file(
    study: Study, places: running.Places, args: argparse.Namespace
) -> int:
    """Adds rows that the study's program wrote by itself."""
    known = rows.origin()
    known["commit"] = args.commit
    modified = datetime.date.fromtimestamp(args.file.stat().st_mtime)
    known["date"] = args.date or str(modified)
    known["machine"] = args.machine or known["machine"]
    seeds = args.seeds or study.seeds
    if args.only:
        cases = [x for x in study.cases if has_labels(x, args.only)]
        study = study._replace(cases=cases)
    return running.import_rows(study, args.file, places, seeds, known)


if __name__ == "__main__":
    main()
