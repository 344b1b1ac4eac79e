"""Scores files of texts with an exported model, on one machine or a cluster.

    python -m examples.deployment.score_corpus titles.jsonl \\
        --model exported/titles/1 --output scored

Takes JSON lines and Parquet, files or folders of them, and a SavedModel whose
`serving_default` has one input, strings. Ray Data gives shards of
`--shard-rows` rows to workers, each with a model of its own; a worker forms
batches of texts of similar length. The scores of a shard are a file of
`--output`, in the order of the texts, with the file and number of each row, its
`--id-field`, and all outputs of the model by name.

A worker that dies is replaced and its shard done again; a run that is killed
continues when it is started again. Either way each row is there exactly once.
Two runs cannot use one folder at a time.

Without `--address` Ray runs on this machine for as long as the program does.
On a cluster, inputs, model and output lie in folders that all machines see
under the same paths. `--workers 0` scores in this process, without Ray, with
all CPUs unless `--threads` says how many.
"""

import argparse
import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.deployment import corpus_files
from examples.deployment import corpus_manifest
from examples.deployment import corpus_output
from examples.deployment import text_model
from examples.deployment.corpus_files import Fields
from examples.deployment.corpus_files import Shard

ON_ERROR = ("raise", "skip")


class Job(NamedTuple):
    """What a worker has to know."""

    model: str
    fingerprint: str
    signature: str
    fields: Fields
    batch_size: int
    on_error: str
    folder: corpus_output.ScoreFolder


class Scorer:
    """Scores shards with a model that it loads once."""

    def __init__(self, job: Job):
        self._job = job
        if text_model.fingerprint(job.model) != job.fingerprint:
            raise ValueError(
                "Argument `model` must stay what it was when the run began, "
                "on each machine. Received: another "
                f"model={job.model!r} on {socket.gethostname()}"
            )
        self._model = text_model.TextModel(job.model, job.signature)

    def __call__(self, shard: Shard) -> dict[str, Any]:
        """Writes the scores of a shard, unless they are there.

        Returns:
            Number of the shard, its rows, the seconds it took, who did it, and
            what is wrong with it, or an empty string.
        """
        begun = time.perf_counter()
        problem = ""
        if not self._job.folder.scores(shard.number).exists():
            try:
                with self._job.folder.attempt(shard.number):
                    self._score(shard)
            except Exception as error:
                # As text: TensorFlow's errors cannot be sent everywhere.
                problem = str(error)
                if shard.file.path not in problem:
                    end = shard.first + shard.rows - 1
                    problem = (
                        f"{shard.file.path}, rows {shard.first} to {end}: "
                        f"{problem}"
                    )
        return {
            "shard": shard.number,
            "rows": shard.rows,
            "seconds": time.perf_counter() - begun,
            "worker": f"{os.getpid()} on {socket.gethostname()}",
            "problem": problem,
        }

    def _score(self, shard):
        rows, bad = [], []
        for row in corpus_files.read(shard, self._job.fields):
            if isinstance(row, corpus_files.Row):
                rows.append(row)
            elif self._job.on_error == "raise":
                raise ValueError(row.reason)
            else:
                bad.append(row)
        texts = [row.text for row in rows]
        answers = text_model.score(self._model, texts, self._job.batch_size)
        self._job.folder.write(shard, rows, answers, bad)


class RayScorer(Scorer):
    """A scorer in a process of its own, which Ray Data gives rows.

    Args:
        job: What to do.
        shards: All of them.
        threads: That TensorFlow may use.
    """

    def __init__(self, job: Job, shards: Sequence[Shard], threads: int):
        text_model.limit_tensorflow(threads)
        super().__init__(job)
        self._shards = shards

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return super().__call__(self._shards[row["item"]])


def on_ray(
    job: Job, shards: Sequence[Shard], args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Scores shards in Ray's workers; yields what became of them."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(
            "Workers need `pip install 'keras_seqmech[scaling]'`."
        ) from error

    # Machines of a cluster need not have these modules.
    ray.cloudpickle.register_pickle_by_value(sys.modules["examples"])
    workers = start_ray(args)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        done = ray.data.from_items(
            range(len(shards)), override_num_blocks=len(shards)
        ).map(
            RayScorer,
            fn_constructor_args=(job, shards, args.threads),
            num_cpus=args.threads,
            # A shard is read by who scores it, so there is none to prefetch.
            compute=ray.data.ActorPoolStrategy(
                size=min(workers, len(shards)),
                max_tasks_in_flight_per_actor=1,
            ),
        )
        yield from done.iter_rows()
    except ray.exceptions.RayError as error:
        raise RuntimeError(f"Workers could not go on: {error}") from error
    finally:
        ray.shutdown()


def start_ray(args: argparse.Namespace) -> int:
    """Joins a cluster, or starts Ray here; returns the number of workers."""
    import ray

    if args.address is not None:
        ray.init(address=args.address, log_to_driver=False)
        cpus = int(ray.cluster_resources().get("CPU", 0))
        return args.workers or max(1, cpus // args.threads)
    workers = args.workers or max(1, (os.cpu_count() or 1) // args.threads)
    ray.init(
        address="local",
        num_cpus=workers * args.threads,
        include_dashboard=False,
        log_to_driver=False,
        # Of bytes: texts and scores do not go through Ray's memory.
        object_store_memory=100 * 2**20,
    )
    return workers


def here(job: Job, shards: Sequence[Shard]) -> Iterator[dict[str, Any]]:
    """Scores shards in this process; yields what became of them."""
    yield from map(Scorer(job), shards)


def run(args: argparse.Namespace) -> dict[str, int]:
    """Scores what is not scored yet; returns the numbers of all rows.

    Raises:
        ValueError: If arguments, files, model or folder are not what they must
            be, or a row cannot be scored.
    """
    check(args)
    files = corpus_files.find(args.inputs)
    if args.workers != 0:  # The workers compute, and this process looks.
        text_model.limit_tensorflow(1)
    elif args.threads is not None:
        text_model.limit_tensorflow(args.threads)
    outputs = text_model.TextModel(args.model, args.signature).outputs
    job = Job(
        model=str(args.model.absolute()),
        fingerprint=text_model.fingerprint(args.model),
        signature=args.signature,
        fields=Fields(args.text_field, args.id_field),
        batch_size=args.batch_size,
        on_error=args.on_error,
        folder=corpus_output.ScoreFolder(
            args.output.absolute(), args.format, args.id_field, outputs
        ),
    )
    with corpus_manifest.reserved(job.folder.path):
        return score(args, job, files)


def check(args: argparse.Namespace) -> None:
    """Refuses arguments that contradict each other."""
    if args.workers == 0 and args.address is not None:
        raise ValueError(
            "Argument `address` must be left out with `workers=0`, which "
            f"scores in this process. Received: address={args.address!r}"
        )
    output = args.output.resolve()
    for path in map(Path, args.inputs):
        if path.is_dir() and output.is_relative_to(path.resolve()):
            raise ValueError(
                "Argument `output` must be a folder outside of all `inputs`, "
                "or scores would be taken for texts. "
                f"Received: output={str(args.output)!r} in {str(path)!r}"
            )


def score(
    args: argparse.Namespace,
    job: Job,
    files: Sequence[corpus_files.CorpusFile],
) -> dict[str, int]:
    """Scores what is not scored yet, in a folder that is reserved."""
    shards = open_folder(args, job, files)
    job.folder.clean()
    left = [s for s in shards if not job.folder.scores(s.number).exists()]
    total = sum(shard.rows for shard in shards)
    print(
        f"{total} rows of {len(files)} files in {len(shards)} shards, "
        f"{len(shards) - len(left)} of them done before",
        flush=True,
    )
    if left:
        results = (
            on_ray(job, left, args) if args.workers != 0 else here(job, left)
        )
        with contextlib.closing(results):
            follow(results, len(left))
    job.folder.clean()
    rejected = job.folder.count_rejects()
    return {"rows": total - rejected, "rejected": rejected}


def open_folder(
    args: argparse.Namespace,
    job: Job,
    files: Sequence[corpus_files.CorpusFile],
) -> list[Shard]:
    """The shards of a run that is continued, or of one that begins."""
    settings = {
        "model": job.fingerprint,
        **{
            name: getattr(args, name)
            for name in (
                *("signature", "text_field", "id_field"),
                *("batch_size", "shard_rows", "format"),
            )
        },
    }
    shards = corpus_manifest.begin(job.folder.path, settings, files)
    if shards is None:
        shards = corpus_files.split(files, args.shard_rows, job.fields)
        corpus_manifest.record(job.folder.path, settings, files, shards)
    return shards


def follow(results: Iterable[dict[str, Any]], count: int) -> None:
    """Prints what becomes of shards, up to the first that fails."""
    speed, rows, begun = "", 0, 0.0
    for number, done in enumerate(results, start=1):
        if done["problem"]:
            raise ValueError(done["problem"])
        now = time.perf_counter()
        if number == 1:  # Until then workers were starting.
            begun = now
        else:
            rows += done["rows"]
            speed = f"; {rows / (now - begun):.0f} rows a second in all"
        print(
            f"{number} of {count}: shard {done['shard']}, {done['rows']} rows "
            f"in {done['seconds']:.1f} s by {done['worker']}{speed}",
            flush=True,
        )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add(
        "inputs",
        nargs="+",
        help=".jsonl or .parquet files, or folders, searched with all in them",
    )
    add("--model", type=Path, required=True, help="folder of a SavedModel")
    add("--output", type=Path, required=True, help="folder of the scores")
    add("--format", choices=corpus_output.FORMATS, default="jsonl")
    add("--text-field", default="text", help="of the texts")
    add("--id-field", help="to be written beside the scores, as a string")
    add("--signature", default="serving_default")
    add("--batch-size", type=positive, default=256, help="texts of a batch")
    add("--shard-rows", type=positive, default=10_000, help="rows of a shard")
    add(
        "--workers",
        type=integer(0),
        help="processes; 0: this one, without Ray; default: all CPUs",
    )
    add(
        "--threads",
        type=positive,
        help="CPUs of each worker; default: 1, or all with --workers 0",
    )
    add("--address", help="of a Ray cluster; default: this machine alone")
    add(
        "--on-error",
        choices=ON_ERROR,
        default="raise",
        help="a row that cannot be scored, without a text or an id for one, "
        "ends the run, or is left out and named in rejects-*.jsonl",
    )
    args = parser.parse_args(argv)
    if args.threads is None and args.workers != 0:
        args.threads = 1
    return args


def main(argv: Sequence[str] | None = None) -> dict[str, int]:
    """Runs the example; returns how many rows have scores, or have none."""
    args = parse(argv)
    try:
        counts = run(args)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        sys.exit(str(error))
    print(f"{args.output}: scores of {counts['rows']} rows")
    if counts["rejected"]:
        rejected = counts["rejected"]
        print(f"{rejected} rows were left out: see rejects-*.jsonl")
    return counts


if __name__ == "__main__":
    main()
