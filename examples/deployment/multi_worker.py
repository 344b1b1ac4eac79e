"""Trains one model in two processes at once, and recovers when one dies.

    python -m examples.deployment.multi_worker --kill-after 30

Starts two workers on this machine, as on two machines `TF_CONFIG` would. Each
draws its own examples of the picking task;
`tf.distribute.MultiWorkerMirroredStrategy` adds up the gradients of a
`FocusedHierarchicalEncoder`. With `--kill-after N` the second worker is killed
(SIGKILL) after its step N; both are then started again and continue from the
newest checkpoint. At the end the weights of both are compared.

The training loop is one of its own, around `strategy.run`: Keras 3's `fit`
does not work with more than one worker
(https://github.com/keras-team/keras/issues/20585). Examples depend on the
number of the step alone, and the checkpoint holds the layers' random states, so
that a run with a kill ends as one without.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib

import keras
import tensorflow as tf

import keras_seqmech
from examples.common import arguments
from examples.tasks import picking

WORKERS = 2


def main(argv: list[str] | None = None) -> None:
    """Starts the workers, or is one."""
    args = parse(argv)
    if args.worker is not None:
        work(args)
        return
    # Without this the workers would outlive a launcher that is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Terminated."))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        args.folder = folder
        if not run_workers(args):
            print("A worker was killed. Both start from the last checkpoint.")
            args.kill_after = 0
            if not run_workers(args):
                sys.exit("A worker was killed again.")
        files = pathlib.Path(folder).glob("worker-*")
        digests = {file.read_text() for file in files}
    if len(digests) > 1:
        sys.exit("The workers ended with different weights.")
    seconds = time.perf_counter() - start
    print(f"Both workers hold the same numbers, after {seconds:.0f} s.")
    print("Their digest:", *digests)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=100, help="steps of the optimizer")
    add("--batch-size", type=int, default=32, help="examples a worker")
    add("--length", type=int, default=10, help="digits")
    add("--units", type=int, default=32, help="units of the upper LSTM")
    add("--save-every", type=int, default=20, help="steps")
    add("--kill-after", type=int, default=0, help="step; 0: never")
    add("--worker", type=int, choices=range(WORKERS), help=argparse.SUPPRESS)
    add("--folder", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def run_workers(args: argparse.Namespace) -> bool:
    """Runs all workers to the end, True, or until one is killed, False."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]
    processes = []
    for worker in range(WORKERS):
        config = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": worker},
        }
        own = {**vars(args), "worker": worker}
        if worker < WORKERS - 1:
            own["kill_after"] = 0
        options = [
            f"--{name.replace('_', '-')}={value}" for name, value in own.items()
        ]
        command = [sys.executable, "-m", "examples.deployment.multi_worker"]
        environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
        process = subprocess.Popen([*command, *options], env=environment)
        processes.append(process)
    try:
        while any(p.poll() is None for p in processes):
            codes = [p.poll() or 0 for p in processes]
            if min(codes) < 0:
                return False
            if max(codes) > 0:
                sys.exit("A worker failed, for the reason above.")
            time.sleep(0.1)
        return all(p.returncode == 0 for p in processes)
    finally:
        # One alone would wait for the other.
        for process in processes:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def make_model(args: argparse.Namespace) -> keras.Model:
    """Digits and k in, the logits of the answer out."""
    tokens = keras.Input((args.length,), dtype="int32", name="tokens")
    k = keras.Input((), dtype="int32", name="k")
    encoder = keras_seqmech.FocusedHierarchicalEncoder(
        args.units, estimator="straight_through"
    )
    focused = encoder(
        keras.ops.one_hot(tokens, picking.DIGITS),
        keras.ops.one_hot(k - 1, args.length),
    )
    logits = keras.layers.Dense(picking.DIGITS)(focused)
    return keras.Model({"tokens": tokens, "k": k}, logits)


def work(args: argparse.Namespace) -> None:
    """Trains as one of the workers."""
    # Before any other use of TensorFlow: it starts the servers.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model(args)
        optimizer = keras.optimizers.Adam(0.005)
        optimizer.build(model.trainable_variables)
    step = tf.Variable(0, dtype="int64")
    weights = {id(variable) for variable in model.weights}
    checkpoint = tf.train.Checkpoint(
        model=model,
        optimizer=optimizer,
        # The layers' random states.
        seeds=[v.value for v in model.variables if id(v) not in weights],
        step=step,
    )
    name, folder = f"worker {args.worker}", pathlib.Path(args.folder)
    # Each worker saves, and the first one's checkpoint is that of all.
    own = str(folder / f"checkpoints-{args.worker}")
    manager = tf.train.CheckpointManager(checkpoint, own, max_to_keep=2)
    latest = tf.train.latest_checkpoint(str(folder / "checkpoints-0"))
    if latest:
        checkpoint.restore(latest).assert_consumed()
        say(f"{name}: continues after step {int(step)}")

    def train(inputs, targets):
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(
                targets, model(inputs, training=True), from_logits=True
            )
            loss = tf.reduce_mean(losses) + sum(model.losses)
            # The optimizer adds up what workers bring.
            share = loss / strategy.num_replicas_in_sync
        gradients = tape.gradient(share, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return share

    @tf.function
    def train_together(inputs, targets):
        shares = strategy.run(train, args=(inputs, targets))
        return strategy.reduce("SUM", shares, axis=None)

    while int(step) < args.steps:
        seed = WORKERS * int(step) + args.worker
        sizes = args.batch_size, args.length
        inputs, targets = picking.examples(*sizes, seed=seed)
        inputs = {key: tf.constant(value) for key, value in inputs.items()}
        loss = train_together(inputs, tf.constant(targets))
        step.assign_add(1)
        done = int(step)
        if done % args.save_every == 0 or done == args.steps:
            manager.save()
            say(f"{name}: step {done} of {args.steps}, loss {float(loss):.3f}")
        if done == args.kill_after:
            say(f"{name}: killed after step {done}")
            os.kill(os.getpid(), signal.SIGKILL)
    digest = 0
    for variable in (*model.variables, *optimizer.variables):
        digest = zlib.crc32(variable.numpy().tobytes(), digest)
    (folder / f"worker-{args.worker}").write_text(f"{digest:08x}")


def say(line: str) -> None:
    """Prints a line in one piece, beside what the other worker prints."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
