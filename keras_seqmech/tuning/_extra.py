"""Fails without the extra `tuning`; imported first in this package."""

try:
    import keras_tuner  # noqa: F401
except ImportError as error:
    raise ImportError(
        "`keras_seqmech.tuning` needs KerasTuner and TensorBoard; install "
        "them with `pip install 'keras_seqmech[tuning]'`. "
        f"Received: {error}"
    ) from error
