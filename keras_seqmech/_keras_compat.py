"""What Keras and TensorFlow do not offer in public, with the reason for each.

`tests/test_keras_compat.py` fails, and says what to do, when an upgrade
changes one of them.
"""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def in_xla() -> bool:
    """Whether the code being traced will be compiled with XLA.

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
