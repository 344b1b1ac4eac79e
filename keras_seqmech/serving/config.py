"""Which models, and which of their versions, TensorFlow Serving serves."""

import numbers
import os
import pathlib
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keras_seqmech.serving import layout


def models_config(
    directories: Iterable[str | os.PathLike],
    root: str | os.PathLike | None = None,
    versions: Mapping[str, Collection[int]] | None = None,
) -> str:
    """Text of a `models.config` for TensorFlow Serving.

    A model's name is that of its directory, as in `export_model`. The server
    serves the largest version of each model, and a larger one as soon as it
    is exported; models in `versions` stay at the versions given there, so as
    to return to an older one.

    Args:
        directories: The `directory` of `export_model`, one a model.
        root: Directory in which the server finds these directories, such as
            `/models` in a container. Defaults to their paths here.
        versions: Numbers of the versions to serve by model name, for models
            that do not follow the largest.

    Returns:
        A `ModelServerConfig` in the protocol buffers' text format, for a file
        that the server is given by `--model_config_file`.

    Raises:
        ValueError: If a directory holds no version, or not one asked for, or
            two models have one name, or an argument is of another type.

    Example:

    >>> import tempfile, pathlib
    >>> from keras_seqmech import serving
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     tagger = pathlib.Path(directory, "tagger")
    ...     (tagger / "1").mkdir(parents=True)  # what `export_model` does
    ...     text = serving.models_config(
    ...         [tagger], root="/models", versions={"tagger": [1]}
    ...     )
    >>> print(text)
    model_config_list {
      config {
        name: "tagger"
        base_path: "/models/tagger"
        model_platform: "tensorflow"
        model_version_policy { specific { versions: 1 } }
      }
    }
    <BLANKLINE>
    """
    several = isinstance(directories, Iterable)
    if isinstance(directories, (str, os.PathLike)) or not several:
        raise ValueError(
            "Argument `directories` must be a list of paths. "
            f"Received: directories={directories!r}"
        )
    directories = list(directories)
    if not all(isinstance(d, (str, os.PathLike)) for d in directories):
        raise ValueError(
            "Argument `directories` must hold paths. "
            f"Received: directories={directories!r}"
        )
    if not isinstance(root, (str, os.PathLike, type(None))):
        raise ValueError(
            f"Argument `root` must be a path or None. Received: root={root!r}"
        )
    paths = [pathlib.Path(d).resolve() for d in directories]
    names = [path.name for path in paths]
    if not names or len(set(names)) < len(names):
        raise ValueError(
            "Argument `directories` must hold at least one path, and no two "
            "of the same last name. "
            f"Received: directories={list(map(str, paths))}"
        )
    versions = versions or {}
    if not isinstance(versions, Mapping) or not set(versions) <= set(names):
        raise ValueError(
            f"Argument `versions` must have keys of {sorted(names)}. "
            f"Received: versions={versions}"
        )
    configs = [
        _config(path, root, _check_versions(path, versions.get(path.name)))
        for path in paths
    ]
    return f"model_config_list {{\n{''.join(configs)}}}\n"


def _check_versions(path: pathlib.Path, wanted: Any) -> list[int]:
    found = layout.versions(path)
    if not found:
        raise ValueError(
            "Argument `directories` must hold directories with numbered "
            f"versions. Received: directories=[..., {str(path)!r}]"
        )
    if wanted is None:
        return []
    fits = isinstance(wanted, Collection) and all(
        isinstance(version, numbers.Integral)
        and not isinstance(version, bool)
        and version in found
        for version in wanted
    )
    if not fits or not wanted:
        raise ValueError(
            f"Argument `versions` must name versions of {sorted(found)} for "
            f"{path.name!r}. Received: versions={{{path.name!r}: {wanted!r}}}"
        )
    return sorted(set(wanted))


def _config(
    path: pathlib.Path,
    root: str | os.PathLike | None,
    versions: list[int],
) -> str:
    if root is None:
        base = str(path)
    else:
        base = f"{os.fspath(root).rstrip('/')}/{path.name}"
    policy = " ".join(f"versions: {version}" for version in versions)
    return (
        "  config {\n"
        f"    name: {_quote(path.name)}\n"
        f"    base_path: {_quote(base)}\n"
        '    model_platform: "tensorflow"\n'
        + (
            f"    model_version_policy {{ specific {{ {policy} }} }}\n"
            if policy
            else ""
        )
        + "  }\n"
    )


def _quote(text: str) -> str:
    """A string in the text format, which must be ASCII."""
    plain = set(range(32, 127)) - set(b'"\\')
    escaped = [chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()]
    return f'"{"".join(escaped)}"'
