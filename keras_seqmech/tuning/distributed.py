"""The chief and the workers of a distributed search, and their address.

KerasTuner reads the environment: each process has a `KERASTUNER_TUNER_ID`,
which contains "chief" in the chief, and all have the chief's
`KERASTUNER_ORACLE_IP` and `KERASTUNER_ORACLE_PORT`. Without these two a search
runs in one process.
"""

import errno
import os
import socket

import grpc

from keras_seqmech.layers import validation

IP = "KERASTUNER_ORACLE_IP"
PORT = "KERASTUNER_ORACLE_PORT"
TUNER_ID = "KERASTUNER_TUNER_ID"


def is_chief() -> bool:
    """Whether this process is the chief of a distributed search."""
    return _is_distributed() and "chief" in _read(TUNER_ID)


def is_worker() -> bool:
    """Whether this process is a worker of a distributed search."""
    return _is_distributed() and "chief" not in _read(TUNER_ID)


def tuner_id() -> str:
    """The name of this process in KerasTuner."""
    return os.environ.get(TUNER_ID, "tuner0")


def check_port() -> None:
    """Refuses an address at which the chief cannot listen.

    gRPC would share the port with another gRPC server and receive some of the
    workers' calls, without an error.

    Raises:
        ValueError: If `KERASTUNER_ORACLE_PORT` is no port.
        OSError: If the port is taken, or the address is not of this machine.
    """
    ip, port = _read(IP), read_port()
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family) as probe:
        # A port is free as soon as its server has ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ip.strip("[]"), port))
        except OSError as error:
            reason = (
                "the port is taken; choose another one"
                if error.errno == errno.EADDRINUSE
                else error.strerror or str(error)
            )
            raise OSError(
                error.errno,
                f"The chief cannot listen at {IP}={ip}, {PORT}={port}: "
                f"{reason}",
            ) from error


def wait_for_chief(timeout: float = 60.0) -> None:
    """Waits until the chief answers. KerasTuner itself would wait an hour.

    Args:
        timeout: Seconds to wait.

    Raises:
        ValueError: If `KERASTUNER_ORACLE_PORT` is no port.
        TimeoutError: If there is no chief after that time.
    """
    timeout = validation.check_positive("timeout", timeout)
    address = f"{_read(IP)}:{read_port()}"
    channel = grpc.insecure_channel(address)
    try:
        grpc.channel_ready_future(channel).result(timeout)
    except grpc.FutureTimeoutError as error:
        raise TimeoutError(
            f"No chief of a search answers at {address} ({IP} and {PORT}) "
            f"after {timeout:g} seconds. Start it first: the same program "
            f"with {TUNER_ID}=chief"
        ) from error
    finally:
        channel.close()


def _is_distributed() -> bool:
    """Refuses half an address, with which KerasTuner would search alone."""
    return (IP in os.environ or PORT in os.environ) and all(
        map(_read, (IP, PORT))
    )


def _read(name: str) -> str:
    if not os.environ.get(name):
        raise ValueError(
            f"A distributed search needs the environment variables {IP}, "
            f"{PORT} and {TUNER_ID}. Received: {name}="
            f"{os.environ.get(name)!r}"
        )
    return os.environ[name]


def read_port() -> int:
    """The number of the chief's port."""
    text = _read(PORT)
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ValueError(
            f"{PORT} must be a number from 1 to 65535. Received: {PORT}={text}"
        )
    return int(text)
