"""Attention of a context to the states of a focused encoder."""

import math
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import attention
from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.layers import add_kernel
from keras_seqmech.core.numerics import finite_gradient
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.focused.gate import TakesContext
from keras_seqmech.focused.gate import bounded_context
from keras_seqmech.typing import Tensor

STATES = ("every", "open")
# Gates less open than this count as closed.
LEAST_OPEN = 1e-12


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ContextAttention(TakesContext):
    r"""Attention of a context to the states of a focused encoder.

    $$\alpha_t \propto g_t \exp(q^T s_t / \sqrt{u}), \qquad
      r = \sum_t \alpha_t s_t$$

    with q the context, which a kernel projects to the size u of the states if
    its own differs, and $s_t$ the state after step t.

    - `states="every"`: $g_t = 1$ at all real steps. A state counts once for
      each step that it lasts; before the first open gate it is the initial
      state. Straight-through gates learn better this way: a gate that opens
      changes what is read at all following steps.
    - `states="open"`: $g_t$ is the gate, so that each state is read once, the
      source's "unique states". The number of closed steps does not matter.
      Soft gates take part as far as they are open, and gates learn from what
      is read.

    Args:
        states: `"every"` or `"open"`.
        kernel_initializer: Initializer of the context's kernel.
        kernel_regularizer: Regularizer of the context's kernel.
        return_attention_scores: Whether to return $\alpha$ too.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`: the states after every
            step, of an encoder with `return_sequences=True`.
        context: Tensor `(batch, context features)`. Entries beyond a million
            act as a million.
        gates: Tensor `(batch, time)`, from 0 to 1, as the encoder returns them
            with `return_gates=True`. Needed with `states="open"`; without
            effect otherwise.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step is
            real.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.

    Output shape:
        `(batch, features)`; with `return_attention_scores` a tuple of that and
        `{"attention_scores": (batch, time)}`, float32 or wider.

    Masking: masked steps have weight 0, and their values reach neither output
    nor gradient. A row without a real step, or without an open gate, reads
    zeros.

    Cost: one product a step; time and memory grow with T, not with its square.

    Example:

    >>> import numpy as np
    >>> from keras_seqmech import FocusedHierarchicalEncoder
    >>> encoder = FocusedHierarchicalEncoder(
    ...     8, return_sequences=True, return_gates=True)
    >>> x, question = np.ones((2, 7, 5)), np.ones((2, 3))
    >>> states, decisions = encoder(x, question)
    >>> read = ContextAttention(states="open")
    >>> read(states, question, decisions["gates"]).shape
    TensorShape([2, 8])

    Source: "Focused Hierarchical RNNs for Conditional Sequence Processing".
    """

    def __init__(
        self,
        states: str = "every",
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ):
        # Gates and context stay as they are given, float32 or wider.
        super().__init__(autocast=False, **kwargs)
        self.states = checks.check_choice("states", states, STATES)
        self.kernel_initializer = checks.get_initializer(
            "kernel_initializer", kernel_initializer
        )
        self.kernel_regularizer = checks.get_regularizer(
            "kernel_regularizer", kernel_regularizer
        )
        self.return_attention_scores = checks.check_bool(
            "return_attention_scores", return_attention_scores
        )

    def build(
        self,
        sequence_shape: Any,
        context_shape: Any = None,
        gates_shape: Any = None,
    ) -> None:
        self.build_sizes(sequence_shape, context_shape)
        self.context_kernel = None
        if self.features != self.context_size:
            self.context_kernel = add_kernel(
                self, "context_kernel", (self.context_size, self.features)
            )

    def call(
        self,
        sequence: Tensor,
        context: Tensor,
        gates: Tensor | None = None,
        mask: Tensor | None = None,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        gates = checks.as_tensor(gates)
        mask = masks.given(mask, sequence_mask)
        sequence, context, real = self.prepare_inputs(sequence, context, mask)
        checks.check_by_step("gates", gates, sequence.shape)
        if gates is None and self.states == "open":
            raise ValueError(
                "Argument `gates` must be a tensor (batch, time) where "
                '`states` is "open". Received: gates=None'
            )
        gates = checks.assert_by_step("gates", gates, sequence)
        sequence = ops.cast(sequence, self.compute_dtype)
        sequence = masks.zero_masked_forward(sequence, real)

        scores = attention.dot_scores(self._query(context), sequence)
        if self.states == "open":
            weights = gated_weights(scores, gates, real)
        else:
            real = masks.real_steps(scores, real)
            weights = attention.attention_weights(scores, real)
        read = attention.weighted_sum(weights, sequence)
        shown = {"attention_scores": weights}
        return reports.with_decisions(
            self, [read], shown, self.return_attention_scores
        )

    def _query(self, context: Tensor) -> Tensor:
        dtype = score_dtype(self.compute_dtype)
        query = bounded_context(ops.cast(context, dtype))
        if self.context_kernel is not None:
            query = ops.matmul(query, ops.cast(self.context_kernel, dtype))
        return query / math.sqrt(self.features)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "states": self.states,
            "kernel_initializer": serialize(self.kernel_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "return_attention_scores": self.return_attention_scores,
        }


def gated_weights(
    scores: Tensor, gates: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""Weights of gated steps, $g_t \exp(s_t) / \sum_j g_j \exp(s_j)$.

    Scores $s_t$ are finite, float32 or wider; all are `(batch, time)`. Gates
    outside of 0 to 1 count as the nearest. Weights are 0 at masked steps and
    closed gates, and in rows without an open gate.

    A closed gate has a gradient, by which straight-through gates learn to
    open. It is computed as if its score were at most the largest $\log b_t +
    s_t$ of the open steps, so that one large score cannot dominate.
    """
    real = masks.real_steps(scores, mask)
    scores = ops.where(real, scores, ops.zeros_like(scores))
    gates = ops.where(real, ops.cast(gates, scores.dtype), 0)
    gates = finite_gradient(ops.clip(gates, 0, 1))
    is_open = gates >= LEAST_OPEN
    logs = ops.log(ops.where(is_open, gates, ops.ones_like(gates)))
    best = attention.largest(scores + logs, is_open)
    any_open = ops.any(is_open, axis=1, keepdims=True)
    best = ops.where(any_open, best, attention.largest(scores, real))
    # At open steps the difference is at most -log(LEAST_OPEN).
    bound = ops.where(is_open, -2 * math.log(LEAST_OPEN), 0.0)
    bound = ops.cast(bound, scores.dtype)
    masses = gates * ops.exp(ops.minimum(scores - best, bound))
    # The largest mass of an open step is 1.
    total = ops.sum(masses, axis=1, keepdims=True)
    return masses / ops.where(any_open, total, ops.ones_like(total))
