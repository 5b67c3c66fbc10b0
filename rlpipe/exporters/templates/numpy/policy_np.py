"""Runs the policy in this folder with numpy and nothing else.

    from policy_np import load

    policy = load("policy.npz")
    actions = policy({"obs": observations})["action"]      # any batch size, the first axis is the batch

`policy.json` lists the operations, `policy.npz` holds the weights. A policy with memory also takes `state.0`, ... and
gives `state.0.next`, ...: begin with `policy.zeros(n)`, feed back what it gives, and set `episode_start`, one bool for
each row, to True in the first step of every episode.
"""

import json
import math
import os

import numpy as np
from numpy.lib.stride_tricks import as_strided


def load(path):
    """The policy of a policy.npz with its policy.json beside it."""
    folder = os.path.dirname(os.path.abspath(path))
    with open(os.path.join(folder, "policy.json"), encoding="utf-8") as file:
        graph = json.load(file)
    with np.load(path, allow_pickle=False) as archive:
        return Policy(graph, {name: archive[name] for name in archive.files})


class Policy:
    """Name -> array in, name -> array out; see `inputs` and `outputs` for names, dtypes and shapes."""

    def __init__(self, graph, constants):
        self.inputs = {put["name"]: (np.dtype(put["dtype"]), tuple(put["shape"][1:])) for put in graph["inputs"]}
        self.outputs = {put["name"]: (np.dtype(put["dtype"]), tuple(put["shape"][1:])) for put in graph["outputs"]}
        self._step = np.errstate(all="ignore")(written_out(graph, dict(constants)))

    def __call__(self, feeds):
        self._check(feeds)
        return self._step(*[feeds[name] for name in self.inputs])

    def zeros(self, n):
        """The memory of n policies that have seen nothing."""
        carried = [(name, *self.inputs[name]) for name in self.inputs if name + ".next" in self.outputs]
        return {name: np.zeros((n, *shape), dtype) for name, dtype, shape in carried}

    def _check(self, feeds):
        if feeds.keys() != self.inputs.keys():
            raise ValueError(f"expected the inputs {list(self.inputs)}, found {list(feeds)}")
        batch = None
        for name, (dtype, shape) in self.inputs.items():
            array = feeds[name]
            if array.dtype != dtype or array.shape[1:] != shape or array.ndim == len(shape):
                expected = f"{dtype} (batch, {', '.join(map(str, shape))})"
                raise ValueError(f"{name}: expected {expected}, found {array.dtype} {array.shape}")
            if batch is not None and len(array) != batch:
                raise ValueError(f"{name}: expected a batch of {batch}, found {len(array)}")
            batch = len(array)


def written_out(graph, space):
    """The operations as one Python function, one line for each; it is quicker than going through a list."""
    inputs = [put["tensor"] for put in graph["inputs"]]
    lines = [f"def step({', '.join(inputs)}):"]
    for kind, sources, result, attributes in graph["operations"]:
        space[f"make_{result}"] = WITH_ATTRIBUTES[kind](**attributes) if kind in WITH_ATTRIBUTES else PLAIN[kind]
        given = linear_constants(space, sources) if kind == "linear" else sources
        batch = [f"len({inputs[0]})"] if kind == "broadcast" else []
        lines.append(f"    {result} = make_{result}({', '.join([*given, *batch])})")
    # What may be an input or a weight, seen in another way, is copied: results belong to the caller.
    own = {result for kind, _, result, _ in graph["operations"] if kind not in VIEWS}
    results = []
    for put in graph["outputs"]:
        results.append(f"{put['name']!r}: {put['tensor']}{'' if put['tensor'] in own else '.copy()'}")
        own.discard(put["tensor"])
    exec("\n".join([*lines, f"    return {{{', '.join(results)}}}"]), space)
    return space["step"]


def linear_constants(space, sources):
    """Names of weights laid out as numpy multiplies and adds them fastest."""
    x, weight, *bias = sources
    if weight in space:
        space[f"{weight}_columns"] = np.ascontiguousarray(space[weight].T)
    for name in bias:
        if name in space:
            space[f"{name}_row"] = space[name][None]
    return [x, f"{weight}_columns" if weight in space else f"{weight}.T"] + [
        f"{name}_row" if name in space else name for name in bias
    ]


def linear(x, columns, bias=None):
    return np.dot(x, columns) if bias is None else np.dot(x, columns) + bias


def conv(stride, dilation, groups):
    def apply(x, weight, bias=None):
        views = windows(x, weight.shape[2:], stride, dilation)  # (m, c, oh, ow, kh, kw)
        m, c, height, width, _, _ = views.shape
        columns = views.reshape(m, groups, c // groups, *views.shape[2:]).transpose(1, 0, 3, 4, 2, 5, 6)
        columns = columns.reshape(groups, m * height * width, weight[0].size)
        y = np.matmul(columns, weight.reshape(groups, len(weight) // groups, weight[0].size).transpose(0, 2, 1))
        y = y.reshape(groups, m, height, width, len(weight) // groups).transpose(1, 0, 4, 2, 3)
        y = y.reshape(m, len(weight), height, width)
        return y if bias is None else y + bias[:, None, None]

    return apply


def max_pool(kernel, stride, dilation):
    return lambda x: windows(x, kernel, stride, dilation).max(axis=(4, 5))


def windows(x, kernel, stride, dilation):
    m, c, *sides = x.shape
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(sides, kernel, stride, dilation)]
    moves = [step * s for step, s in zip(x.strides[2:], stride)]
    inside = [step * d for step, d in zip(x.strides[2:], dilation)]
    return as_strided(x, (m, c, *counts, *kernel), (*x.strides[:2], *moves, *inside), writeable=False)


# erf(x) = x P(x^2) / Q(x^2) within 4 units in the last place of float32, for |x| below 4; beyond that it is 1.
ERF_P = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05)
ERF_P += (-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02)
ERF_Q = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03)
ERF_Q += (-1.42647390514189e-02,)
exact_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x):
    if x.dtype != np.float32:
        return exact_erf(x)
    x = np.clip(x, np.float32(-4), np.float32(4))
    square = x * x
    return x * polynomial(ERF_P, square) / polynomial(ERF_Q, square)


def polynomial(coefficients, x):
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y = y * x + np.float32(coefficient)
    return y


def sized(shape, batch):
    return tuple(size if size >= 0 else -size * batch for size in shape)


def slicer(axis, start, stop, step):
    index = (slice(None),) * axis + (slice(start, stop, step),)
    return lambda x: x[index]


def reduction(function):
    return lambda axes, keep: lambda x: function(x, axis=tuple(axes), keepdims=keep)


def choice(function):
    return lambda axis, keep: lambda x: function(x, axis=axis, keepdims=keep)


VIEWS = ("reshape", "permute", "broadcast", "slice")
PLAIN = {
    **{kind: getattr(np, kind) for kind in "abs ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 sin".split()},
    **{kind: getattr(np, kind) for kind in "sinh sqrt tan tanh trunc add fmod maximum minimum where matmul".split()},
    **{f"a{kind}": getattr(np, f"arc{kind}") for kind in "cos cosh sin sinh tan tan2 tanh".split()},
    **{"neg": np.negative, "not": np.logical_not, "round": np.rint},
    **{"sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"eq": np.equal, "ne": np.not_equal, "ge": np.greater_equal, "gt": np.greater},
    **{"le": np.less_equal, "lt": np.less, "linear": linear, "erf": erf},
    "sign": lambda x: (x > 0).astype(x.dtype) - (x < 0),  # of NaN: 0
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
WITH_ATTRIBUTES = {
    "cast": lambda dtype: lambda x: x.astype(dtype),
    # One axis at most grows with the batch: numpy finds it out.
    "reshape": lambda shape: lambda x: x.reshape([max(size, -1) for size in shape]),
    "permute": lambda axes: lambda x: x.transpose(axes),
    "broadcast": lambda shape: lambda x, batch: np.broadcast_to(x, sized(shape, batch)),
    "slice": slicer,
    "concat": lambda axis: lambda *parts: np.concatenate(parts, axis),
    "take": lambda axis: lambda x, indices: np.take(x, indices, axis),
    "gather": lambda axis: lambda x, indices: np.take_along_axis(x, indices, axis),
    "conv": conv,
    "max_pool": max_pool,
    **{kind: reduction(getattr(np, kind)) for kind in "amax amin any prod sum".split()},
    **{kind: choice(getattr(np, kind)) for kind in "argmax argmin".split()},
}
