"""Private parts of Keras and TensorFlow, with the reason for each.

`tests/test_keras_compat.py` fails, and says what to do, when an upgrade
changes one of them.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_util
from tensorflow.python.ops import control_flow_v2_func_graphs

# Types of gradients that were registered, and the attribute of an operation
# that holds its gradient.
_GRADIENT_TYPES: set[str] = set()
_REGISTERING = threading.Lock()
_GRADIENT = "keras_seqmech_gradient"


def in_xla() -> bool:
    """Returns whether the code being traced will be compiled with XLA.

    XLA needs static sizes, so the length of a shortened sequence cannot
    depend on its values there, and everywhere else it should. A function
    traced for XLA differs from another in its control flow context alone, of
    which TensorFlow has no public view. Code that was traced before, such as
    an exported model, does not ask again: XLA refuses it.
    """
    graph = tf.compat.v1.get_default_graph()
    return bool(
        not tf.executing_eagerly()
        and control_flow_util.GraphOrParentsInXlaContext(graph)
    )


def in_control_flow() -> bool:
    """Returns whether a loop's body or a condition's branch is being traced.

    Only what it returns can be used outside of it, and TensorFlow has no public
    view of where its tensors belong.
    """
    graph = tf.compat.v1.get_default_graph()
    return isinstance(graph, control_flow_v2_func_graphs.ControlFlowFuncGraph)


def is_recomputed() -> bool:
    """Returns whether the gradient of what runs now comes of another run.

    So it does within `keras.RematScope`, `keras.remat` and
    `tf.recompute_grad`. Their first run is where recording is stopped, which
    shows in public only as a tape that stays empty.
    """
    one = tf.ones(())
    with tf.GradientTape() as tape:
        tape.watch(one)
        same = tf.identity(one)
    return tape.gradient(same, one) is None


def custom_gradient(function: Callable) -> Callable:
    """`tf.custom_gradient`, with a gradient that is freed with its graph.

    In graphs `tf.custom_gradient` registers each gradient under a name of its
    own, for all time, and with it everything in the graph: each model that is
    trained would stay in memory. Here all gradients of a signature share one
    registered function, which finds the gradient at the operation. TensorFlow
    has no public way to record a gradient on the tapes within a function.

    An exported graph and a `ForwardAccumulator` within a function have no
    gradient: asked for one, they fail with a message that says so.

    Args:
        function: Function of tensors, positional, that returns a tensor or a
            flat sequence of tensors, and their gradient as for
            `tf.custom_gradient`. It must not read trainable variables.

    Returns:
        The function without the gradient among its results.
    """

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if tf.executing_eagerly():
            return tf.custom_gradient(function)(*args)
        args = tuple(tf.convert_to_tensor(x) for x in args)
        with tf.GradientTape() as tape:
            results, gradient = function(*args)
        if tape.watched_variables():
            raise ValueError(
                "A function with a gradient of its own must get trainable "
                "variables as arguments. Received: a function that reads "
                f"{[variable.name for variable in tape.watched_variables()]}"
            )
        flat = tf.nest.flatten(results)

        def gradient_of_all(*upstream: Any) -> list:
            gradients = gradient(*upstream[: len(flat)])
            return [None] * len(flat) + tf.nest.flatten(gradients)

        tensors = [*flat, *args]
        gradient_type = _gradient_type(tensors)
        graph = tf.compat.v1.get_default_graph()
        with graph.gradient_override_map({"IdentityN": gradient_type}):
            passed_on = tf.raw_ops.IdentityN(input=tensors)
        setattr(passed_on[0].op, _GRADIENT, gradient_of_all)
        # On a tape the type of an operation alone says which gradient it has.
        tf.__internal__.record_gradient(gradient_type, tensors, (), passed_on)
        return tf.nest.pack_sequence_as(results, passed_on[: len(flat)])

    return call


def _gradient_type(tensors: list) -> str:
    """The registered type of gradient for tensors of these shapes and dtypes.

    When a graph is exported, TensorFlow traces one gradient of each type, and
    of a loaded graph it calls that with the tensors of all.
    """
    signature = " ".join(f"{x.dtype.name}{x.shape}" for x in tensors)
    name = f"keras_seqmech>CustomGradient {signature}"
    with _REGISTERING:
        if name not in _GRADIENT_TYPES:
            tf.RegisterGradient(name)(_gradient)
            _GRADIENT_TYPES.add(name)
    return name


def _gradient(operation: Any, *upstream: Any) -> list:
    if operation is not None:
        # On a tape, `operation` is a stub; its tensors are real.
        gradient = getattr(operation.outputs[0].op, _GRADIENT, None)
        if gradient is not None:
            return gradient(*upstream)
    refusal = tf.debugging.Assert(
        False,
        [
            "There is no gradient here through layers of keras_seqmech: not "
            "of an exported model (load the .keras file), nor by a "
            "ForwardAccumulator within a function (use a GradientTape)."
        ],
    )
    with tf.control_dependencies([refusal]):
        return [None if x is None else tf.identity(x) for x in upstream]
