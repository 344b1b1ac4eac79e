"""Plain numpy, float64, written from the papers: one row, one step at a time.

Nothing here is vectorised over time or batch, and nothing is shared with the
package.
"""

import math
from fractions import Fraction

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    exponentials = np.exp(x - np.max(x))
    return exponentials / np.sum(exponentials)


def simple_rnn(weights, x, states):
    kernel, recurrent_kernel, bias = weights
    hidden = np.tanh(x @ kernel + states[0] @ recurrent_kernel + bias)
    return hidden, [hidden]


def lstm(weights, x, states):
    kernel, recurrent_kernel, bias = weights
    hidden, carry = states
    z = x @ kernel + hidden @ recurrent_kernel + bias
    i, f, g, o = np.split(z, 4)
    carry = sigmoid(f) * carry + sigmoid(i) * np.tanh(g)
    hidden = sigmoid(o) * np.tanh(carry)
    return hidden, [hidden, carry]


def gru(weights, x, states):
    """The gated recurrent unit with the reset gate after the product."""
    kernel, recurrent_kernel, (input_bias, recurrent_bias) = weights
    (hidden,) = states
    xz, xr, xh = np.split(x @ kernel + input_bias, 3)
    hz, hr, hh = np.split(hidden @ recurrent_kernel + recurrent_bias, 3)
    update, reset = sigmoid(xz + hz), sigmoid(xr + hr)
    hidden = update * hidden + (1 - update) * np.tanh(xh + reset * hh)
    return hidden, [hidden]


def inner_states(field, window, valid):
    """m_1..m_S of an unmasked run (eq. 2), carried over invalid positions."""
    state = np.zeros(field["field_bias"].shape)
    states = []
    for x, real in zip(window, valid):
        if real:
            z = x @ field["field_kernel"] + field["field_bias"]
            if "field_recurrent_kernel" in field:
                z = z + state @ field["field_recurrent_kernel"]
            state = np.tanh(z)
        states.append(state)
    return states


def drawn_summary(field, window, valid, size, summary):
    """Reads `size` positions, skips those that are not real, and sums up."""
    states = inner_states(field, window[:size], valid[:size])
    if summary == "last":
        return states[-1]
    return np.mean([m for m, real in zip(states, valid) if real], axis=0)


def soft_summary(field, window, valid, sample, summary):
    """Equations 6 and 8, and the mean weighted by 1 - mask."""
    state = np.zeros(field["field_bias"].shape)
    total, weight = np.zeros_like(state), 0.0
    for i, (x, real) in enumerate(zip(window, valid)):
        mask = sum(sample[:i]) if real else 1.0
        z = x @ field["field_kernel"] + field["field_bias"]
        if "field_recurrent_kernel" in field:
            z = z + state @ field["field_recurrent_kernel"]
        state = (1 - mask) * np.tanh(z) + mask * state
        total, weight = total + (1 - mask) * state, weight + (1 - mask)
    return state if summary == "last" else total / weight


def selected_summary(field, window, valid, sample, summary):
    """What fields of each size read, mixed by a relaxed sample of sizes."""
    return sum(
        share * drawn_summary(field, window, valid, size, summary)
        for size, share in enumerate(sample, start=1)
    )


def stopping_distribution(field, window, valid, hidden):
    """Reads on from position to position; at each real one it may stop."""
    states = inner_states(field, window, valid)
    last = max(i for i, real in enumerate(valid) if real)
    left, probabilities = 1.0, []
    for i, (m, real) in enumerate(zip(states, valid)):
        stop = 0.0
        if i == last:
            stop = 1.0
        elif real:
            logit = (
                m @ field["stop_kernel"][:, 0]
                + hidden @ field["stop_recurrent_kernel"][:, 0]
                + field["stop_bias"][i]
            )
            stop = sigmoid(logit)
        probabilities.append(left * stop)
        left *= 1 - stop
    return np.array(probabilities)


def receptive_field(
    field,
    cell,
    x,
    states,
    max_size,
    summary="mean",
    mode="argmax",
    noise=None,
    temperature=1.0,
    mask=None,
    gated=0,
):
    """Equations 1 to 8 on one row.

    With weights of stop logits, sizes come from what was read.

    Args:
        field: Weights by name.
        cell: Function `(x, states) -> (output, states)`.
        x: `(time, features)`.
        states: List of vectors.
        max_size: S.
        summary: "mean" or "last".
        mode: "argmax", "drawn" (Gumbel-max) or "soft". With stop logits and
            without noise, "argmax" takes the first position whose stop
            probability is at least one half.
        noise: `(time, S)`.
        temperature: Of the soft sample.
        mask: `(time,)` booleans.
        gated: Index of the state that the gate multiplies.

    Returns:
        Outputs (zeros before the first real step, repeated at masked steps),
        final states, sizes (positions really read), probabilities.
    """
    length = len(x)
    mask = np.ones(length, bool) if mask is None else mask
    output = None
    outputs, sizes, probabilities = [], [], []
    for t in range(length):
        if mask[t]:
            positions = range(t, t + max_size)
            window = [x[p] if p < length else 0 * x[0] for p in positions]
            valid = [p < length and bool(mask[p]) for p in positions]
            logits = np.zeros(1)
            if "size_kernel" in field:
                logits = (
                    x[t] @ field["size_kernel"]
                    + states[0] @ field["size_recurrent_kernel"]
                )
            reads_first = "stop_kernel" in field
            if reads_first:
                stops = stopping_distribution(field, window, valid, states[0])
                # A size of probability 0 is never drawn.
                logits = np.log(np.maximum(stops, 1e-300)) + np.where(
                    stops > 0, 0, -1e9
                )
            scores = logits if noise is None else logits + noise[t]
            if mode == "soft":
                sample = softmax(scores / temperature)
                read = selected_summary if reads_first else soft_summary
                m = read(field, window, valid, sample, summary)
                size = sum(
                    real * sum(sample[i:]) for i, real in enumerate(valid)
                )
            else:
                if reads_first and noise is None:
                    later = np.cumsum(stops[::-1])[::-1] - stops
                    scores = stops >= later
                chosen = int(np.argmax(scores)) + 1
                m = drawn_summary(field, window, valid, chosen, summary)
                size = sum(valid[:chosen])
            gate = sigmoid(m @ field["forget_kernel"] + field["forget_bias"])
            states = list(states)
            states[gated] = gate * states[gated]
            output, states = cell(x[t], states)
            sizes.append(size)
            probabilities.append(softmax(logits))
        else:
            sizes.append(0.0)
            probabilities.append(np.zeros(max_size))
        outputs.append(output)
    outputs = [0 * states[0] if o is None else o for o in outputs]
    return np.array(outputs), states, np.array(sizes), np.array(probabilities)


# Poolings of the real steps `(time, features)` of one row.


def mean(steps):
    return sum(steps) / len(steps)


def maximum(steps):
    return np.array([max(column) for column in steps.T])


def last(steps):
    return steps[-1]


def two_ends(steps):
    half = steps.shape[1] // 2
    return np.concatenate([steps[-1][:half], steps[0][half:]])


def concat(steps):
    return np.concatenate([last(steps), maximum(steps), mean(steps)])


def attend(query, keys, values):
    weights = softmax(np.array([key @ query for key in keys]))
    return sum(w * value for w, value in zip(weights, values))


def max_attention(steps):
    keys = [h / np.linalg.norm(h) for h in steps]
    return attend(maximum(steps), keys, steps)


def last_attention(steps):
    keys = [h / np.linalg.norm(h) for h in steps]
    return attend(last(steps), keys, steps)


# The focused hierarchical encoder, one row.


def gate_logit(gate, h, q):
    """w . LReLU(W z + b) + b_o with z = [q * h, h, q]."""
    if "context_kernel" in gate:
        q = q @ gate["context_kernel"]
    z = np.concatenate([q * h, h, q])
    hidden = z @ gate["kernel"] + gate["bias"]
    hidden = np.where(hidden > 0, hidden, 0.2 * hidden)
    return float(hidden @ gate["output_kernel"][:, 0] + gate["output_bias"])


def running_sum_gates(probabilities):
    """Opens a gate where the exact sum, rounded (halves up), has grown."""
    total, gates = Fraction(0), []
    for p in probabilities:
        before, total = total, total + Fraction(float(p))
        half = Fraction(1, 2)
        gates.append(math.floor(total + half) > math.floor(before + half))
    return np.array(gates)


def focused_encoder(
    gate,
    lower,
    upper,
    x,
    q,
    states,
    noise=None,
    mask=None,
    opens=lambda probabilities: probabilities[-1] > 0.5,
):
    """Hard gates: the upper LSTM moves where a gate is open, and only there.

    Args:
        gate: Weights of the gate by name.
        lower: Weights of the lower LSTM.
        upper: Weights of the upper LSTM.
        x: `(time, features)`.
        q: Vector, the context.
        states: Lower h and c, upper h and c.
        noise: `(time,)` logistic noise; None to decide by the probability.
        mask: `(time,)` booleans.
        opens: Whether a gate is open without noise, from the probabilities up
            to it, 0 at masked steps.

    Returns:
        Upper states after each step (zeros before the first real one), final
        states, gates, probabilities.
    """
    low, up = list(states[:2]), list(states[2:])
    outputs, gates, probabilities = [], [], []
    started = False
    for t in range(len(x)):
        real = mask is None or mask[t]
        gates.append(0.0)
        probabilities.append(0.0)
        if real:
            started = True
            _, low = lstm(lower, x[t], low)
            logit = gate_logit(gate, low[0], q)
            probabilities[t] = sigmoid(logit)
            if noise is None:
                gates[t] = float(opens(probabilities))
            else:
                gates[t] = float(logit + noise[t] > 0)
            if gates[t]:
                _, up = lstm(upper, low[0], up)
        outputs.append(up[0] if started else 0 * up[0])
    decisions = np.array(gates), np.array(probabilities)
    return np.array(outputs), [*low, *up], *decisions


# Gradient-directed training.


def gradient_divergence(norms, mask):
    """KL to uniform of each row, one position after the other."""
    result = np.zeros(len(norms))
    for b in range(len(norms)):
        row = [norm for norm, real in zip(norms[b], mask[b]) if real]
        for norm in row:
            p = norm / sum(row) if sum(row) else 0.0
            result[b] += p * np.log(p * len(row)) if p else 0.0
    return result
