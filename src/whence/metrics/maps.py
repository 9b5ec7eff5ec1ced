"""Maps from codes to numbers, learned on some rows and tried on others: linear, and a small network."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from whence.metrics.arrays import Array
from whence.metrics.groups import ROWS, Units


class Map(Protocol):
    """Learns y (N, M) from codes (N, D), and says it of the test codes."""

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Least squares with an intercept; the shortest solution if codes depend on each other."""

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Array:
        units = Units.of(z)
        n, d = z.shape
        mean = y.mean(0)
        gram, cross = np.zeros((d, d)), np.zeros((d, y.shape[1]))
        for i in range(0, n, ROWS):
            x = units(z[i : i + ROWS], np.float64)
            gram += x.T @ x
            cross += x.T @ (y[i : i + ROWS] - mean)
        w = np.linalg.pinv(gram, rcond=1e-10, hermitian=True) @ cross
        return np.concatenate([units(z_test[i : i + ROWS], np.float64) @ w for i in range(0, len(z_test), ROWS)]) + mean


@dataclass(frozen=True, kw_only=True)
class Network:
    """scikit-learn's multilayer perceptron, stopped early on a tenth of the rows it learns from."""

    hidden: tuple[int, ...] = (64, 64)  #: units of each layer
    epochs: int = 30  #: at most
    rows: int = 30_000  #: to learn from, at most

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Array:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        if len(z) > self.rows:
            some = np.random.default_rng(seed).choice(len(z), self.rows, replace=False)
            z, y = z[some], y[some]
        units, targets = Units.of(z), Units.of(y)
        model = MLPRegressor(
            hidden_layer_sizes=self.hidden,
            learning_rate_init=0.01,
            batch_size=max(1, min(200, len(z) * 9 // 10)),  # a tenth is kept aside
            max_iter=self.epochs,
            early_stopping=len(z) >= 50,
            n_iter_no_change=5,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are a budget
            wanted = targets(y)
            model.fit(units(z), wanted[:, 0] if y.shape[1] == 1 else wanted)
        parts = [model.predict(units(z_test[i : i + ROWS])) for i in range(0, len(z_test), ROWS)]
        told = np.concatenate(parts).reshape(len(z_test), -1)
        return np.clip(told * targets.spread + targets.mean, y.min(0), y.max(0))  # it does not extrapolate
