"""Runs that are killed and resumed end as those that were not."""

import json
import os
import pathlib
import shutil
import signal
import sys
import threading
import time
import traceback

import keras
import numpy as np
import pytest

import keras_seqmech
from keras_seqmech.training.exact_backup import ExactBackupAndRestore
from tests.processes import printed_by

pytestmark = pytest.mark.long

ROWS, BATCH, EPOCHS = 4, 2, 3
BATCHES = ROWS // BATCH


class Shuffled(keras.utils.PyDataset):
    """Batches in an order that depends on the epoch alone."""

    epoch = 0

    def __init__(self):
        super().__init__()
        generator = np.random.default_rng(0)
        self.x = generator.normal(size=(ROWS, 2, 2)).astype("float32")
        self.y = self.x.sum(axis=(1, 2))[:, None]

    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        order = np.random.default_rng(self.epoch).permutation(ROWS)
        rows = order[BATCH * index : BATCH * (index + 1)]
        return self.x[rows], self.y[rows]


def make_model() -> keras.Model:
    """Gates by policy gradient, dropout, and what schedules change."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    x = keras.Input((2, 2))
    h = keras_seqmech.ReceptiveFieldRNN(
        keras.layers.SimpleRNNCell(2),
        max_size=2,
        estimator="reinforce",
        return_sequences=True,
    )(x)
    h = keras_seqmech.LastAttentionPooling()(h)
    y = keras.layers.Dense(1)(keras.layers.Dropout(0.25)(h))
    model = keras_seqmech.PolicyGradientModel(keras.Model(x, y))
    model.compile(keras.optimizers.Adam(0.02), "mse", run_eagerly=True)
    return model


def train(model, *callbacks, epochs=EPOCHS):
    data = Shuffled()
    schedule = keras_seqmech.Schedule(
        {"attention_dropout": (0.0, 0.2), "temperature": (1.0, 0.2)}
    )
    tell = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: setattr(data, "epoch", epoch)
    )
    return model.fit(
        data,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[tell, schedule, *callbacks],
    )


class Stop(keras.callbacks.Callback):
    """An interruption after some batches."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch, logs=None):
        self.batches -= 1
        if not self.batches:
            raise KeyboardInterrupt


def resume(directory, backup_class, **options) -> keras.Model:
    """The model of a run in two parts, of 3 and of all batches."""
    with pytest.raises(KeyboardInterrupt):
        train(make_model(), backup_class(directory, **options), Stop(3))
    model = make_model()
    train(model, backup_class(directory, **options))
    return model


def values(model) -> dict:
    """All there is at the end, seeds and the optimizer's among it."""
    variables = [*model.variables, *model.optimizer.variables]
    return {f"{i} {v.path}": v.numpy() for i, v in enumerate(variables)}


def differences(one, other) -> set:
    assert one.keys() == other.keys()
    return {name for name in one if (one[name] != other[name]).any()}


@pytest.fixture(scope="module")
def whole() -> dict:
    """The end of a run without interruption."""
    model = make_model()
    train(model)
    return values(model)


def test_interrupted_run_ends_as_one_that_was_not(whole, tmp_path):
    """Its backup is kept: then nothing is left to train; or it is deleted."""
    directory = tmp_path / "backup"
    model = resume(directory, ExactBackupAndRestore, delete_checkpoint=False)
    assert not differences(values(model), whole)
    assert [path.name for path in directory.iterdir()] == [f"epoch-{EPOCHS}"]
    model = make_model()
    assert train(model, ExactBackupAndRestore(directory)).epoch == []
    assert not differences(values(model), whole)
    assert not directory.exists()


@pytest.mark.parametrize("moment", ["save_weights", "rename", "rmtree"])
def test_backup_may_be_cut_short(whole, tmp_path, monkeypatch, moment):
    directory = tmp_path / "backup"
    model = make_model()

    def cut(*args, **kwargs):
        if moment == "save_weights":
            (directory / "part" / "latest.weights.h5").write_text("half")
        raise KeyboardInterrupt

    class Cut(keras.callbacks.Callback):
        """From the second backup on."""

        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                owner = {"save_weights": model, "rename": pathlib.Path}
                name = moment if moment in owner else "rmtree"
                monkeypatch.setattr(owner.get(moment, shutil), name, cut)

    with pytest.raises(KeyboardInterrupt):
        train(model, Cut(), ExactBackupAndRestore(directory))
    monkeypatch.undo()
    model = make_model()
    train(model, ExactBackupAndRestore(directory))
    assert not differences(values(model), whole)


def test_bad_arguments(tmp_path):
    (tmp_path / "file").touch()
    for path in ("", None, 5, "gs://bucket", tmp_path / "file"):
        with pytest.raises(ValueError, match="`backup_dir` .*Received: backup"):
            ExactBackupAndRestore(path)
    with pytest.raises(ValueError, match="`delete_checkpoint`.*Received"):
        ExactBackupAndRestore(tmp_path / "other", delete_checkpoint="no")
    unbuilt = keras.Sequential([keras.layers.Dense(1)])
    unbuilt.compile("sgd", "mse")
    backup = ExactBackupAndRestore(tmp_path / "backup")
    with pytest.raises(ValueError, match="must be built"):
        unbuilt.fit(np.ones((2, 2)), np.ones((2, 1)), callbacks=[backup])


def drop(directory, *callbacks, dropouts=1, layers=2, optimizer="adagrad"):
    """One step an epoch of a small model."""
    x = keras.Input((2,))
    y = x
    for _ in range(dropouts):
        y = keras.layers.Dropout(0.5)(y)
    for i in range(layers):
        y = keras.layers.Dense(2, name=f"dense_{i}")(y)
    model = keras.Model(x, y)
    model.compile(optimizer, "mse", run_eagerly=True)
    data = np.ones((2, 2))
    callbacks = [*callbacks, ExactBackupAndRestore(directory)]
    return model.fit(data, data, epochs=11, callbacks=callbacks, verbose=0)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A backup of ten of eleven epochs."""
    directory = tmp_path_factory.mktemp("stopped") / "backup"
    with pytest.raises(KeyboardInterrupt):
        drop(directory, Stop(11))
    return directory


@pytest.mark.parametrize(
    "options",
    [
        {"dropouts": 2},
        {"layers": 1},
        {"optimizer": "rmsprop"},
        {"optimizer": "sgd"},
    ],
)
def test_backups_of_another_model(stopped, options):
    with pytest.raises(ValueError, match="of this model.*'Adagrad'"):
        drop(stopped, **options)


def test_files_of_others_stay(stopped, tmp_path):
    """Of two backups, the later one is the one of the higher number."""
    directory = shutil.copytree(stopped, tmp_path / "backup")
    (directory / "epoch-best").touch()
    (directory / "epoch-9").mkdir()
    assert drop(directory).epoch == [10]
    assert [path.name for path in directory.iterdir()] == ["epoch-best"]


def test_killed_run_ends_as_one_that_was_not(tmp_path, kills=2, epochs=6):
    command = ["-W", "ignore", "-m", __name__, tmp_path, kills, epochs]
    printed = printed_by(*command)
    # The epochs that processes began with: none from the beginning again.
    began = [int(x) for x in json.loads(printed[-1])]
    assert len(began) == kills + 1
    assert began == sorted(began)
    assert 0 < began[-1] < epochs
    ends = []
    for name in ("whole", "killed"):
        with np.load(tmp_path / name / "end.npz") as file:
            ends.append(dict(file))
    assert not differences(*ends)
    assert not (tmp_path / "killed" / "backup").exists()


class Kill(keras.callbacks.Callback):
    """Kills its process a moment after some batches; says where it began."""

    def __init__(self, batches, seconds, path):
        super().__init__()
        self.batches = batches
        self.seconds = seconds
        self.path = path

    def on_epoch_begin(self, epoch, logs=None):
        if self.path is not None:
            with self.path.open("a") as file:
                print(epoch, file=file)
            self.path = None

    def on_train_batch_end(self, batch, logs=None):
        self.batches -= 1
        if not self.batches:
            kill = os.getpid(), signal.SIGKILL
            threading.Timer(self.seconds, os.kill, kill).start()
        elif self.batches == -1:
            time.sleep(9)  # It does not come to the end before.


def work(directory, epochs, *kill) -> int:
    """What a process does that may be killed; its exit code."""
    try:
        model = make_model()
        backup = ExactBackupAndRestore(directory / "backup")
        kill = Kill(*kill, directory / "began")
        train(model, backup, kill, epochs=epochs)
    except BaseException:
        traceback.print_exc()
        return 1
    np.savez(directory / "end.npz", **values(model))
    return 0


def main(directory, kills, epochs):
    """Trains twice, once without a kill; reports what came of the kills."""
    generator = np.random.default_rng(0)
    for name, count in (("whole", 0), ("killed", kills)):
        (directory / name).mkdir()
        for number in range(count + 1):
            kill = generator.integers(1, 5), generator.uniform(0, 0.03)
            if number == count:
                kill = BATCHES * epochs + 1, 0
            # As fresh as imports leave it.
            pid = os.fork()
            if not pid:
                os._exit(work(directory / name, epochs, *kill))
            _, status = os.waitpid(pid, 0)
            if number == count:
                assert status == 0
            else:
                assert os.WIFSIGNALED(status)
    # Of the last.
    print(json.dumps((directory / name / "began").read_text().split()))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:]))
