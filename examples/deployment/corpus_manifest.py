"""What a folder of scores belongs to: settings, files of texts, shards.

A run that is continued has to ask for the same as the one that began. Otherwise
the folder would hold answers to two questions.
"""

import itertools
import json
import os
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.deployment import corpus_output
from examples.deployment.corpus_files import CorpusFile
from examples.deployment.corpus_files import Shard

NAME = "manifest.json"


def begin(
    folder: Path, settings: Mapping[str, Any], files: Sequence[CorpusFile]
) -> list[Shard] | None:
    """Opens a folder for a run, new or to be continued.

    Args:
        folder: Made if there is none.
        settings: What the scores depend on, in JSON's types.
        files: Of texts.

    Returns:
        The shards of the run that is continued; None for a new one.

    Raises:
        ValueError: If the folder holds something else, or a run with other
            settings or files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(
            "Argument `output` must be a folder that can be written to. "
            f"Received: output={str(folder)!r}"
        )
    path = folder / NAME
    if not path.exists():
        others = sorted(
            p.name
            for p in folder.iterdir()
            if p.suffix != corpus_output.TEMPORARY
        )
        if others:
            raise ValueError(
                "Argument `output` must be a new or empty folder, or one that "
                f"a run began. Received: output={str(folder)!r} with {others}"
            )
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
    """Writes the manifest of a new run."""
    index = {file.path: i for i, file in enumerate(files)}
    manifest = {
        "settings": settings,
        "files": files,
        "shards": [
            (index[s.file.path], s.first, s.rows, s.offset) for s in shards
        ],
    }
    corpus_output.write_whole(
        folder / NAME,
        lambda file: file.write(json.dumps(manifest).encode() + b"\n"),
    )
