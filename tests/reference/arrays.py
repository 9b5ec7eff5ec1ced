"""Codes of known representations, from seeds: the inputs of `disentanglement_lib.json`.

v are uniformly drawn factors, s the same with mean 0 and standard deviation 1 under their distribution. Only
integers, standard normal and uniform numbers are drawn, and no code lies so near an edge between two bins that
rounding could move it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Inputs(NamedTuple):
    z: Array  #: (N, D) codes to learn from
    v: Array  #: (N, K) their factors
    z_test: Array
    v_test: Array


class Draw(NamedTuple):
    sizes: tuple[int, ...]
    train: int
    test: int
    seed: int


SETS = {
    "dsprites": Draw((3, 6, 40, 32, 32), 10_000, 5_000, 1),
    "tiny": Draw((2, 3, 4), 1_000, 500, 2),
}


def rotate(s: Array, q: Array) -> Array:
    """s q without BLAS, so that equal rows give equal bits."""
    return (s[:, :, None] * q).sum(1)


def identity(v, s, sizes, rng):
    return v.astype(np.float64)


def rotated(v, s, sizes, rng):
    q, r = np.linalg.qr(rng.standard_normal((len(sizes), len(sizes))))
    return rotate(s, q * np.sign(np.diag(r)))


def pair45(v, s, sizes, rng):
    a, b = s[:, 0], s[:, 1]
    return np.column_stack([(a - b) / np.sqrt(2), (a + b) / np.sqrt(2), s[:, 2:]])


def duplicated(v, s, sizes, rng):
    return np.tile(v.astype(np.float64), 2)


def noisy(v, s, sizes, rng):
    return s + 0.3 * rng.standard_normal(s.shape)


def random(v, s, sizes, rng):
    return rng.standard_normal(s.shape)


def missing_last(v, s, sizes, rng):
    return v[:, :-1].astype(np.float64)


def sin_cos(v, s, sizes, rng):
    turn = 2 * np.pi * (v + 0.3) / sizes  # 0.3: no angle has a sine of 0, which is an edge between bins
    return np.concatenate([np.sin(turn), np.cos(turn)], 1)


def vae_like(v, s, sizes, rng):
    active = np.tanh(1.2 * s) + 0.05 * rng.standard_normal(s.shape)
    return np.concatenate([active, 0.02 * rng.standard_normal((len(s), 5))], 1)


def constant_dim(v, s, sizes, rng):
    return np.column_stack([v.astype(np.float64), np.full(len(v), 1.5)])


def one_outlier(v, s, sizes, rng):
    z = s.copy()
    z[0] = 20.0
    return z


REPRESENTATIONS: dict[str, Callable[..., Array]] = {
    f.__name__: f
    for f in (
        identity,
        rotated,
        pair45,
        duplicated,
        noisy,
        random,
        missing_last,
        sin_cos,
        vae_like,
        constant_dim,
        one_outlier,
    )
}


def inputs(of: str, representation: str) -> Inputs:
    """Codes and factors of one representation (a key of `REPRESENTATIONS`) on one set (a key of `SETS`)."""
    sizes, train, test, seed = SETS[of]
    n = np.array(sizes)
    v = np.random.default_rng([seed, 0]).integers(n, size=(train + test, len(n)))
    s = (v - (n - 1) / 2) / np.sqrt((n**2 - 1) / 12)
    rng = np.random.default_rng([seed, 1 + list(REPRESENTATIONS).index(representation)])
    z = REPRESENTATIONS[representation](v, s, n, rng)
    return Inputs(z[:train], v[:train], z[train:], v[train:])


FRESH = {
    "plain": lambda z: z,
    "constant": lambda z: np.column_stack([z, np.full(len(z), 2.5)]),
    "duplicated": lambda z: np.column_stack([z, z[:, :2]]),
    "integer": lambda z: np.floor(3 * z).astype(np.int64),
    "float32": lambda z: z.astype(np.float32),
    "few_valued": lambda z: np.sign(z) * (np.abs(z) > 0.5),
    "heavy_tailed": lambda z: z**5,
    "tiny_units": lambda z: 1e-4 * z + 7,
}


def fresh(seed: int) -> tuple[str, Array, Array, Array]:
    """A case of its own for every seed: which of `FRESH`, codes (N, D), factors (N, K), a matrix (D, K) of importances.

    Numbers, sizes, rows, mixing and noise are all drawn.
    """
    rng = np.random.default_rng([6, seed])
    kind = list(FRESH)[seed % len(FRESH)]
    n, d, k = rng.integers(200, 2_000), rng.integers(2, 9), rng.integers(2, 6)
    sizes = rng.integers(2, 16, size=k)
    v = rng.integers(sizes, size=(n, k))
    s = (v - (sizes - 1) / 2) / np.sqrt((sizes**2 - 1) / 12)
    mixing = rng.standard_normal((k, d)) * (rng.random((k, d)) < 0.5)
    z = FRESH[kind](rotate(s, mixing) + rng.uniform(0.05, 1) * rng.standard_normal((n, d)))
    return kind, z, v, rng.random((z.shape[1], k)) ** 4


class Groups(NamedTuple):
    factor: Array  #: (M,) the factor each group shares
    rows: Array  #: (M, size) rows of the pool, equal in that factor


def groups(v: Array, factor: Array, size: int, rng: np.random.Generator) -> Groups:
    """For each entry of `factor`: a row of v at random, then `size` rows with its value of that factor."""
    row, u = rng.integers(len(v), size=len(factor)), rng.random((len(factor), size))
    rows = np.empty(u.shape, np.int64)
    for k, column in enumerate(v.T):
        count = np.bincount(column)
        first, order = np.cumsum(count) - count, np.argsort(column, kind="stable")
        mine = factor == k
        value = column[row[mine], None]
        rows[mine] = order[first[value] + (u[mine] * count[value]).astype(np.int64)]
    return Groups(factor, rows)


def single_groups(v: Array, *, seed: int = 0, m: int = 900, size: int = 64) -> Groups:
    """The FactorVAE metric's groups: the first two thirds vote, the others are voted on."""
    rng = np.random.default_rng([3, seed])
    return groups(v, rng.integers(v.shape[1], size=m), size, rng)


def pair_groups(v: Array, *, seed: int = 0, m: int = 1_500, pairs: int = 32) -> Groups:
    """The beta-VAE metric's groups, rows (M, pairs, 2): the first two thirds train, the others test."""
    rng = np.random.default_rng([4, seed])
    factor = rng.integers(v.shape[1], size=m)
    rows = groups(v, np.repeat(factor, pairs), 2, rng).rows
    return Groups(factor, rows.reshape(m, pairs, 2))


def small_matrices() -> dict[str, Array]:
    """Matrices (codes, factors) of importances, of mutual informations or of scores."""
    dense = np.random.default_rng(5).random((5, 3))
    return {
        "permuted": np.eye(3)[[2, 0, 1]] * np.array([0.2, 1.0, 0.5]),
        "uniform": np.ones((3, 3)),
        "zeros": np.zeros((3, 3)),
        "dense_5x3": dense,
        "dense_3x5": dense.T.copy(),
        "dead_code": dense * np.array([1.0, 0, 1, 1, 1])[:, None],
        "dead_factor": dense * np.array([1.0, 0, 1]),
        "two_codes_a_factor": np.kron(np.eye(3), np.ones((2, 1))),
        "two_factors_a_code": np.kron(np.eye(3), np.ones((1, 2))),
        "one_code": dense[:1],
        "one_factor": dense[:, :1],
    }
