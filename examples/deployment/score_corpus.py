"""Scores files of texts with an exported model, on one machine or a cluster.

    python -m examples.deployment.score_corpus titles.jsonl \\
        --model exported/titles/1 --output scored

Takes JSON lines and Parquet, files or folders of them, and a SavedModel whose
`serving_default` has one input, strings. Ray Data gives shards of
`--shard-rows` rows to workers, each with a model of its own; a worker that dies
is replaced. The scores of a shard are a file of `--output`; a run that is
killed continues when it is started again (docs/scaling.md).

On a cluster, inputs, model and output lie in folders that all machines see
under the same paths. `--workers 0` scores in this process, without Ray.
"""

import argparse
import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from typing import NamedTuple

from examples.common import arguments
from examples.deployment import corpus
from examples.deployment import text_model

# What scores depend on beside model and files.
SETTINGS = ("text_field", "id_field", "batch_size", "shard_rows")
# Of a shard whose worker dies.
RETRIES = 2


class Job(NamedTuple):
    """What a worker has to know."""

    model: str
    fields: corpus.Fields
    batch_size: int
    skips_bad_rows: bool
    folder: corpus.ScoreFolder
    shards: list[corpus.Shard]


class Scorer:
    """Scores shards with a model that it loads once."""

    def __init__(self, job: Job, threads: int | None = None):
        if threads is not None:
            text_model.limit_tensorflow(threads)
        self._job = job
        self._model = text_model.TextModel(job.model)

    def __call__(self, row: dict[str, int]) -> dict[str, Any]:
        """Writes the scores of a shard, unless they are there.

        `item` is the shard's position in the job. Returns what became of it,
        with what is wrong with it or an empty string.
        """
        begun = time.perf_counter()
        shard = self._job.shards[row["item"]]
        problem = ""
        if not self._job.folder.scores(shard.number).exists():
            try:
                self._score(shard)
            except Exception as error:
                # As text: TensorFlow's errors cannot be sent everywhere.
                end = shard.first + shard.rows - 1
                place = f"{shard.file.path}, rows {shard.first} to {end}"
                problem = f"{place}: {error}"
        return {
            "shard": shard.number,
            "rows": shard.rows,
            "seconds": time.perf_counter() - begun,
            "worker": f"{os.getpid()} on {socket.gethostname()}",
            "problem": problem,
        }

    def _score(self, shard):
        rows, bad = [], []
        for row in corpus.read(shard, self._job.fields):
            if not row.reason:
                rows.append(row)
            elif self._job.skips_bad_rows:
                bad.append(row)
            else:
                raise ValueError(f"row {row.number}: {row.reason}")
        texts = [row.text for row in rows]
        answers = self._model.score(texts, self._job.batch_size)
        self._job.folder.write(shard, rows, answers, bad)


def on_ray(job: Job, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Scores shards in Ray's workers; yields what became of them."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    import ray.data

    # Machines of a cluster need not have these modules.
    ray.cloudpickle.register_pickle_by_value(sys.modules["examples"])
    if args.address is None:
        cpus = max(args.threads, os.cpu_count() or 1)
        ray.init(
            address="local",
            num_cpus=(args.workers or 0) * args.threads or cpus,
            include_dashboard=False,
            log_to_driver=False,
            # Of bytes: texts and scores do not go through Ray's memory.
            object_store_memory=100 * 2**20,
        )
    else:
        ray.init(address=args.address, log_to_driver=False)
    cpus = int(ray.cluster_resources().get("CPU", 0))
    workers = args.workers or max(1, cpus // args.threads)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        done = ray.data.from_items(
            range(len(job.shards)), override_num_blocks=len(job.shards)
        ).map(
            Scorer,
            fn_constructor_args=(job, args.threads),
            num_cpus=args.threads,
            # A shard may kill its worker, by its need of memory for one.
            max_task_retries=RETRIES,
            # A shard is read by who scores it, so there is none to prefetch.
            compute=ray.data.ActorPoolStrategy(
                size=min(workers, len(job.shards)),
                max_tasks_in_flight_per_actor=1,
            ),
        )
        yield from done.iter_rows()
    except ray.exceptions.RayError as error:
        raise RuntimeError(f"Workers could not go on: {error}") from error
    finally:
        ray.shutdown()


def run(args: argparse.Namespace) -> dict[str, int]:
    """Scores what is not scored yet; returns the numbers of all rows."""
    output = args.output.resolve()
    for path in args.inputs:
        if path.is_dir() and output.is_relative_to(path.resolve()):
            raise ValueError(
                "Argument `output` must be a folder outside of all `inputs`, "
                "or scores would be taken for texts. "
                f"Received: output={str(args.output)!r} in {str(path)!r}"
            )
    files = corpus.find(args.inputs)
    # Workers compute, if there are any, and this process looks.
    threads = args.threads if args.workers == 0 else 1
    if threads is not None:
        text_model.limit_tensorflow(threads)
    text_model.TextModel(args.model)  # Refused before anything is begun.
    folder = corpus.ScoreFolder(args.output.absolute(), args.id_field)
    settings = {name: getattr(args, name) for name in SETTINGS}
    settings["model"] = text_model.fingerprint(args.model)
    with folder.reserved():
        shards = folder.shards(settings, files, args.shard_rows)
        folder.clean()
        left = [s for s in shards if not folder.scores(s.number).exists()]
        total = sum(shard.rows for shard in shards)
        print(
            f"{total} rows of {len(files)} files in {len(shards)} shards, "
            f"{len(shards) - len(left)} of them done before",
            flush=True,
        )
        job = Job(
            str(args.model.absolute()),
            corpus.Fields(args.text_field, args.id_field),
            args.batch_size,
            args.on_error == "skip",
            folder,
            left,
        )
        if left:
            follow(job, args)
        folder.clean()
        rejected = folder.count_rejects()
    return {"rows": total - rejected, "rejected": rejected}


def follow(job: Job, args: argparse.Namespace) -> None:
    """Scores a job's shards up to one that cannot be, and prints progress."""
    count = len(job.shards)
    if args.workers == 0:
        score = Scorer(job)
        results = (score({"item": i}) for i in range(count))
    else:
        results = on_ray(job, args)
    with contextlib.closing(results):
        for number, done in enumerate(results, start=1):
            if done["problem"]:
                raise ValueError(done["problem"])
            print(
                f"{number} of {count}: shard {done['shard']}, {done['rows']} "
                f"rows in {done['seconds']:.1f} s by {done['worker']}",
                flush=True,
            )


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    inputs = ".jsonl or .parquet files, or folders"
    add("inputs", nargs="+", type=Path, help=inputs)
    add("--model", type=Path, required=True, help="folder of a SavedModel")
    add("--output", type=Path, required=True, help="folder of the scores")
    add("--text-field", default="text", help="field of the texts")
    add("--id-field", help="field written beside the scores, as a string")
    add("--batch-size", type=int, default=256, help="texts of a batch")
    add("--shard-rows", type=int, default=10_000, help="rows of a shard")
    workers = "processes; 0: this one, without Ray; default: all CPUs"
    add("--workers", type=int, help=workers)
    threads = "CPUs of each worker; default: 1, or all with --workers 0"
    add("--threads", type=int, help=threads)
    add("--address", help="Ray cluster; default: this machine alone")
    bad = "a row without a text ends the run, or is named in rejects-*.jsonl"
    actions = ("raise", "skip")
    add("--on-error", choices=actions, default="raise", help=bad)
    args = parser.parse_args(argv)
    if args.threads is None and args.workers != 0:
        args.threads = 1
    return args


def main(argv: list[str] | None = None) -> dict[str, int]:
    """Runs the example; returns how many rows have scores, or have none."""
    args = parse(argv)
    try:
        counts = run(args)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(str(error))
    print(f"{args.output}: scores of {counts['rows']} rows")
    if counts["rejected"]:
        rejected = counts["rejected"]
        print(f"{rejected} rows were left out: see rejects-*.jsonl")
    return counts


if __name__ == "__main__":
    main()
