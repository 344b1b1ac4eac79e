"""A backup from which a killed run continues exactly."""

import contextlib
import json
import os
import pathlib
import reprlib
import shutil

import keras

from keras_seqmech.core import checks

# The random states, and what tells the model from others.
STATE = "state.json"


class ExactBackupAndRestore(keras.callbacks.Callback):
    r"""Backs up at the end of each epoch all that the next epoch depends on.

    Like `keras.callbacks.BackupAndRestore`, which it uses: a second `fit` of
    the same script, in a new process, continues after the last epoch that was
    finished; when `fit` ends, the backup is deleted, unless
    `delete_checkpoint=False`. Three things differ:

    - The states of the model's random seed generators are kept too. Without
      them, dropout, relaxed samples and drawn gates repeat their numbers.
    - A process may be killed at any moment, in the middle of a backup too:
      there is always a complete backup, the last one or the one before.
    - There is no `save_freq` in batches. `fit` always starts an epoch at its
      first batch, so that a backup in its middle makes the model see the first
      batches twice. Where epochs are long, make them shorter by
      `steps_per_epoch`.

    The resumed run ends with exactly the weights of one that was not killed
    if the batches of an epoch depend on nothing but its number, as with
    `shuffle=False`. To shuffle, let the order depend on the epoch:

    ```python
    class Shuffled(keras.utils.PyDataset):
        epoch = 0

        def __len__(self):
            return len(x) // 32

        def __getitem__(self, i):
            order = np.random.default_rng(self.epoch).permutation(len(x))
            rows = order[32 * i : 32 * (i + 1)]
            return x[rows], y[rows]

    data = Shuffled()
    tell = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: setattr(data, "epoch", epoch))
    model.fit(data, shuffle=False, callbacks=[tell, ...])
    ```

    A `Schedule` continues, as does the baseline of a `PolicyGradientModel`.
    List this callback last: what others set at the end of an epoch is then in
    the backup. What is not kept: `History`, which starts with the first epoch
    of the new process, and what other callbacks know, such as the patience of
    `EarlyStopping`; random numbers without a seed generator of the model, as of
    `tf.random` or NumPy.

    Cost: one file of weights and optimizer state an epoch, two while it is
    written.

    Args:
        backup_dir: A directory on a local disk, of this run alone.
        delete_checkpoint: Whether the backup is deleted when `fit` ends. If
            not, a script that is killed while it tests the trained model does
            not train again; delete the directory when all is done.

    Raises:
        ValueError: If an argument is not allowed; at the start of training,
            when the model is not built, or when the backup is of a model with
            other weights, another optimizer or other random layers.

    Example:

    >>> import tempfile
    >>> import keras, numpy as np
    >>> model = keras.Sequential(
    ...     [keras.Input((2,)), keras.layers.Dropout(0.5),
    ...      keras.layers.Dense(2)])
    >>> model.compile("sgd", "mse")
    >>> backup = ExactBackupAndRestore(tempfile.mkdtemp() + "/backup")
    >>> data = np.ones((8, 2))
    >>> history = model.fit(data, data, callbacks=[backup], verbose=0)
    """

    def __init__(
        self, backup_dir: str | os.PathLike, delete_checkpoint: bool = True
    ):
        super().__init__()
        self.delete_checkpoint = checks.check_bool(
            "delete_checkpoint", delete_checkpoint
        )
        is_path = isinstance(backup_dir, (str, os.PathLike)) and backup_dir
        is_local = is_path and "://" not in str(backup_dir)
        if not is_local or pathlib.Path(backup_dir).is_file():
            raise ValueError(
                "Argument `backup_dir` must be the path of a local directory, "
                "or one where it can be made. "
                f"Received: backup_dir={backup_dir!r}"
            )
        self.backup_dir = pathlib.Path(backup_dir)
        # A backup that is being written or deleted; it is never read.
        self._part = self.backup_dir / "part"

    def on_train_begin(self, logs: dict | None = None) -> None:
        shutil.rmtree(self._part, ignore_errors=True)
        backups = self._backups()
        if backups and self.model.built:
            self._restore(backups[-1])
        else:  # It refuses a model that is not built.
            self._keras_backup(self._part).on_train_begin()

    def _restore(self, directory: pathlib.Path) -> None:
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        state = json.loads((directory / STATE).read_text())
        if state["kind"] != _kind(self.model):
            raise ValueError(
                "Argument `backup_dir` must hold a backup of this model, with "
                "this optimizer, or nothing. "
                f"Received: backup_dir={str(self.backup_dir)!r}, with "
                f"{reprlib.repr(state['kind'])}, not "
                f"{reprlib.repr(_kind(self.model))}"
            )
        self._keras_backup(directory).on_train_begin()
        for variable, value in zip(seed_states(self.model), state["seeds"]):
            variable.assign(value)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        shutil.rmtree(self._part, ignore_errors=True)
        self._keras_backup(self._part).on_epoch_end(epoch)
        seeds = [seed.numpy().tolist() for seed in seed_states(self.model)]
        state = {"kind": _kind(self.model), "seeds": seeds}
        (self._part / STATE).write_text(json.dumps(state))
        target = self.backup_dir / f"epoch-{epoch + 1}"
        shutil.rmtree(target, ignore_errors=True)
        self._part.rename(target)
        for backup in self._backups():
            if backup != target:
                shutil.rmtree(backup)

    def on_train_end(self, logs: dict | None = None) -> None:
        if not self.delete_checkpoint:
            return
        for backup in self._backups():
            shutil.rmtree(self._part, ignore_errors=True)
            backup.rename(self._part)
        shutil.rmtree(self._part, ignore_errors=True)
        with contextlib.suppress(OSError):  # Somebody else's files stay.
            self.backup_dir.rmdir()

    def _backups(self) -> list[pathlib.Path]:
        """All complete backups, the oldest first."""
        found = {
            path.name.removeprefix("epoch-"): path
            for path in self.backup_dir.glob("epoch-*")
        }
        return [found[x] for x in sorted(filter(str.isdecimal, found), key=int)]

    def _keras_backup(
        self, directory: pathlib.Path
    ) -> keras.callbacks.Callback:
        backup = keras.callbacks.BackupAndRestore(directory)
        backup.set_model(self.model)
        return backup


def _kind(model: keras.Model) -> list:
    """The optimizer's class and the shapes of all variables of a model."""
    variables = [
        *seed_states(model),
        *model.weights,
        *model.optimizer.variables,
    ]
    shapes = [list(variable.shape) for variable in variables]
    return [type(model.optimizer).__name__, *shapes]


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """The states of seed generators, which are neither weights nor metrics."""
    others = {id(v) for v in (*model.weights, *model.metrics_variables)}
    return [v for v in model.variables if id(v) not in others]
