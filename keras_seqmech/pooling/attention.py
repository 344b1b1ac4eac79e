"""Pooling over time by attention that honours any mask."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_seqmech.core import attention
from keras_seqmech.core import checks
from keras_seqmech.core.scan.loop import compiled
from keras_seqmech.pooling.reductions import Pooling
from keras_seqmech.typing import Tensor


class AttentionPoolingBase(Pooling):
    """Base of poolings whose weights are a softmax over time.

    A subclass computes the vectors and the weights in
    `attend(sequences, mask)`, where training matters with more arguments.
    """

    def __init__(
        self,
        return_attention_scores: bool = False,
        jit_compile: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.return_attention_scores = checks.check_bool(
            "return_attention_scores", return_attention_scores
        )
        self.jit_compile = checks.check_bool("jit_compile", jit_compile)

    def pool(
        self, sequences: Tensor, mask: Tensor | None, **keywords: Any
    ) -> Any:
        attended = self.attend(sequences, mask, **keywords)
        if self.return_attention_scores:
            return attended.pooled, {"attention_scores": attended.weights}
        return attended.pooled

    def attend(
        self, sequences: Tensor, mask: Tensor | None
    ) -> attention.Attended:
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> Any:
        pooled = super().compute_output_shape(input_shape)
        if self.return_attention_scores:
            return pooled, {"attention_scores": tuple(input_shape[:2])}
        return pooled

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "return_attention_scores": self.return_attention_scores,
            "jit_compile": self.jit_compile,
        }


@keras.saving.register_keras_serializable(package="keras_seqmech")
class AttentionPooling(AttentionPoolingBase):
    r"""Attention over time with a learned query ("Luong attention").

    $$\alpha_t = \frac{\exp(h_t^T q)}{\sum_j \exp(h_j^T q)}, \qquad
      y = \sum_t \alpha_t h_t$$

    over real steps; q is one weight vector, the same for all sequences.

    Args:
        query_initializer: Initializer of the query.
        query_regularizer: Regularizer of the query.
        return_attention_scores: Whether to return the weights $\alpha$ too,
            in a dict.
        jit_compile: Whether to compile the layer with XLA where the model is
            not, see Cost. Without effect in eager execution.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequences: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features)`, or with `return_attention_scores` a tuple of that
        and a dict `{"attention_scores": (batch, time)}`, float32 or wider. The
        attention layers of Keras return the scores without a dict; here all
        layers return what they decide by name.

    Masking: the values at masked steps reach neither output nor gradient, and
    have weight 0; a row without a real step gives zeros.

    Cost: a few passes over the sequences, which XLA joins; it compiles anew
    for every shape.

    Example:

    >>> import numpy as np
    >>> layer = AttentionPooling(return_attention_scores=True)
    >>> pooled, scores = layer(np.ones((1, 4, 3)))
    >>> scores["attention_scores"].numpy()  # all steps are alike
    array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.3.1.
    """

    def __init__(
        self,
        query_initializer: Any = "random_normal",
        query_regularizer: Any = None,
        return_attention_scores: bool = False,
        jit_compile: bool = False,
        **kwargs: Any,
    ):
        super().__init__(return_attention_scores, jit_compile, **kwargs)
        self.query_initializer = checks.get_initializer(
            "query_initializer", query_initializer
        )
        self.query_regularizer = checks.get_regularizer(
            "query_regularizer", query_regularizer
        )

    def build(self, input_shape: Sequence[int | None]) -> None:
        super().build(input_shape)
        self.query = self.add_weight(
            name="query",
            shape=(input_shape[-1],),
            initializer=self.query_initializer,
            regularizer=self.query_regularizer,
            # Scores are float32 or wider, and so are their weights.
            autocast=False,
        )

    def check_shape(self, shape: Sequence[int | None]) -> None:
        super().check_shape(shape)
        features = self.query.shape[0] if self.built else None
        checks.check_features("sequences.shape", shape, features)

    def attend(
        self, sequences: Tensor, mask: Tensor | None
    ) -> attention.Attended:
        run = compiled(attention.learned_attention, self.jit_compile)
        return run(self.query, sequences, mask)

    def get_config(self) -> dict:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "query_initializer": serialize(self.query_initializer),
            "query_regularizer": serialize(self.query_regularizer),
        }


@keras.saving.register_keras_serializable(package="keras_seqmech")
class MaxAttentionPooling(AttentionPoolingBase):
    r"""Max-attention: the maximum over time is the query.

    $$q^i = \max_t h_t^i, \qquad
      \alpha_t = \frac{\exp(\hat h_t^T q)}{\sum_j \exp(\hat h_j^T q)},
      \quad \hat h_t = \frac{h_t}{\lVert h_t \rVert}, \qquad
      y = \sum_t \alpha_t h_t$$

    over real steps. Keys are normalised to unit norm, values are not; there
    are no weights to learn. Each sequence has a query of its own, made of its
    most prominent features. A step that is the zero vector scores 0 and takes
    gradient through its value alone.

    Args:
        return_attention_scores: Whether to return the weights $\alpha$ too,
            in a dict.
        jit_compile: Whether to compile the layer with XLA where the model is
            not, see Cost. Without effect in eager execution.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequences: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features)`, or with `return_attention_scores` a tuple of that
        and a dict `{"attention_scores": (batch, time)}`, float32 or wider. The
        attention layers of Keras return the scores without a dict; here all
        layers return what they decide by name.

    Masking: the values at masked steps reach neither output nor gradient, and
    have weight 0; a row without a real step gives zeros.

    Cost: a dozen passes over the sequences, no pairs of steps. XLA joins most
    of them; it compiles anew for every shape.

    Example:

    >>> import numpy as np
    >>> h = np.array([[[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]]])
    >>> layer = MaxAttentionPooling(return_attention_scores=True)
    >>> pooled, scores = layer(h)
    >>> scores["attention_scores"].numpy().round(4)
    array([[0.3354, 0.1234, 0.5412]], dtype=float32)
    >>> pooled.numpy().round(4)
    array([[1.959, 0.788]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.3.2.
    """

    def attend(
        self, sequences: Tensor, mask: Tensor | None
    ) -> attention.Attended:
        run = compiled(attention.max_attention, self.jit_compile)
        return run(sequences, mask)
