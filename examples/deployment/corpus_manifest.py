"""What a folder of scores belongs to: a run, its settings, files and shards.

One run at a time uses a folder. A run that is continued has to ask for the same
as the one that began. Otherwise the folder would hold answers to two questions.
"""

import contextlib
import itertools
import json
import os
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.common import locks
from examples.deployment import corpus_output
from examples.deployment.corpus_files import CorpusFile
from examples.deployment.corpus_files import Shard

NAME = "manifest.json"
# Of the file that a run claims as long as it goes on.
LOCK = ".lock"


@contextlib.contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Keeps a folder for one run, which is made if there is none.

    Raises:
        ValueError: If the folder cannot be written to, holds something else
            than a run, or another run uses it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(
            "Argument `output` must be a folder that can be written to. "
            f"Received: output={str(folder)!r}"
        )
    others = sorted(
        p.name
        for p in folder.iterdir()
        if p.suffix != corpus_output.TEMPORARY and p.name != LOCK
    )
    if others and not (folder / NAME).exists():
        raise ValueError(
            "Argument `output` must be a new or empty folder, or one that "
            f"a run began. Received: output={str(folder)!r} with {others[:9]}"
        )
    with locks.claimed(folder / LOCK) as is_ours:
        if not is_ours:
            other = locks.owner(folder / LOCK) or "another process"
            raise ValueError(
                "Argument `output` must be a folder that no other run uses. "
                f"Received: output={str(folder)!r}, used by {other}"
            )
        yield


def begin(
    folder: Path, settings: Mapping[str, Any], files: Sequence[CorpusFile]
) -> list[Shard] | None:
    """Reads what a folder belongs to.

    Args:
        folder: That is reserved.
        settings: What the scores depend on, in JSON's types.
        files: Of texts.

    Returns:
        The shards of the run that is continued; None for a new one.

    Raises:
        ValueError: If it is a run with other settings or files.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf8"))
        before, shards = manifest["settings"], manifest["shards"]
        files_before = [CorpusFile(*file) for file in manifest["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected the manifest of a run. Received: {error!r}"
        ) from error
    changed = [
        f"{name}={settings.get(name)!r}, then {before.get(name)!r}"
        for name in sorted({*before, *settings})
        if before.get(name) != settings.get(name)
    ] + [
        f"{one}, then {other}"
        for one, other in itertools.zip_longest(files, files_before)
        if one != other
    ]
    if changed:
        raise ValueError(
            f"Argument `output` holds a run that began otherwise: give it what "
            "it had then, or another folder. "
            f"Received: output={str(folder)!r} with {'; '.join(changed[:3])}"
        )
    return [
        Shard(number, files[file], *rest)
        for number, (file, *rest) in enumerate(shards)
    ]


def record(
    folder: Path,
    settings: Mapping[str, Any],
    files: Sequence[CorpusFile],
    shards: Sequence[Shard],
) -> None:
    """Writes the manifest of a new run.

    Raises:
        ValueError: If there is one, of a run on a machine that does not see
            this one's locks.
    """
    index = {file.path: i for i, file in enumerate(files)}
    manifest = {
        "settings": settings,
        "files": files,
        "shards": [
            (index[s.file.path], s.first, s.rows, s.offset) for s in shards
        ],
    }
    content = json.dumps(manifest).encode() + b"\n"
    try:
        corpus_output.write_new(folder / NAME, lambda file: file.write(content))
    except FileExistsError as error:
        raise ValueError(
            "Argument `output` must be a folder in which no other run begins. "
            f"Received: output={str(folder)!r}"
        ) from error
