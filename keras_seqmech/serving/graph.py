"""The ops of a graph that a signature depends on."""

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework import node_def_pb2

# Names of TensorFlow's ops that draw random numbers.
_DRAWS = re.compile(
    r"(?!.*(Dataset|Queue|BatchNorm))"
    r".*(Random|Multinomial|TruncatedNormal|StandardNormal|StatefulUniform"
    r"|StatelessShuffle|CandidateSampler|SampleDistorted|Fractional)|Rng"
)


def count_ops(
    graph: graph_pb2.GraphDef, outputs: Iterable[str]
) -> dict[str, int]:
    """Counts the ops that outputs depend on, in functions too.

    A function counts once, however often it is called. Ops that only save and
    restore variables do not count.

    Args:
        graph: A graph with its library of functions.
        outputs: Names of tensors, such as `call:0`.

    Returns:
        Number of nodes by type of op, the most frequent first.
    """
    nodes = {node.name: node for node in graph.node}
    functions = {f.signature.name: f for f in graph.library.function}
    reached, called = set(), set()
    left = [_node_name(name) for name in outputs]
    while left:
        name = left.pop()
        if name not in reached and name in nodes:
            reached.add(name)
            left.extend(_node_name(x) for x in nodes[name].input)
    counts: Counter[str] = Counter()
    waiting = [nodes[name] for name in reached]
    while waiting:
        node = waiting.pop()
        if node.op not in functions:
            counts[node.op] += 1
        for name in _functions_of(node):
            if name in functions and name not in called:
                called.add(name)
                waiting.extend(functions[name].node_def)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _node_name(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _functions_of(node: node_def_pb2.NodeDef) -> Iterator[str]:
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (function.name for function in value.list.func)


def draws(op: str) -> bool:
    """Whether an op of TensorFlow draws random numbers, or seeds for them."""
    return _DRAWS.match(op) is not None


def is_custom(op: str) -> bool:
    """Whether an op is not one of TensorFlow's own.

    Libraries such as TensorFlow Text register ops with TensorFlow when they
    are imported; `tf.raw_ops` holds none of theirs.
    """
    return not op.startswith("_") and not hasattr(tf.raw_ops, op)
