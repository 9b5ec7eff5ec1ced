"""Multinomial logistic regression, in single precision and in portions: a third of the usual time for many classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from whence.metrics.arrays import Array

NUMBERS = 4_000_000  #: of a portion's table of rows and classes
APART = 10  #: times the variance of the faintest component: codes of less than that do not depend on each other


class Logistic(NamedTuple):
    """log p(class | z) = z w + b, up to a constant of z."""

    w: Array  #: (D, C)
    b: Array  #: (C,)

    def scores(self, z: Array) -> Array:
        """(N, C)"""
        return z.astype(np.float64) @ self.w + self.b

    def log_p(self, z: Array) -> Array:
        """(N, C)"""
        return torch.log_softmax(torch.from_numpy(self.scores(z)), 1).numpy()


def logistic(z: Array, y: Array, *, penalty: float = 1.0, tolerance: float = 1e-4, steps: int = 100) -> Logistic:
    r"""Minimises :math:`- \sum_n \log p(y_n \mid z_n) + \frac{\lambda}{2} \|w\|^2` by L-BFGS until no component of the
    mean gradient exceeds the tolerance, in `steps` at the most: scikit-learn's LogisticRegression, save that the search
    is along the principal components of the codes, each divided by the root of its deviation: half way to equal units.
    Of a hundred codes that depend on each other it comes nearer in as many steps. (In equal units the faintest
    components, which the penalty holds at 0, slow it down.) Codes without a faint component keep their own axes. Codes
    should be of unit scale.
    """
    from scipy.optimize import minimize

    n, d = z.shape
    c = int(y.max()) + 1
    values, vectors = np.linalg.eigh(np.cov(z.T, dtype=np.float64).reshape(d, d))
    if values[0] * APART > values[-1]:  # no component is faint: the codes' own axes serve as well, as in the reference
        values, vectors = np.ones(d), np.eye(d)
    values = values.clip(1e-6 * max(values[-1], 1e-6))
    turn = vectors / values**0.25
    weight = torch.from_numpy(penalty / np.sqrt(values))[:, None]  # of a component's squared coefficient: that of w
    each = max(1, NUMBERS // c)
    xs = torch.from_numpy(np.hstack([z @ turn, np.ones((n, 1))]).astype(np.float32)).split(each)
    ys = torch.from_numpy(y.astype(np.int64)[:, None]).split(each)
    counted = torch.zeros(c, d + 1, dtype=torch.float64)
    for x, y_ in zip(xs, ys, strict=True):
        counted.index_add_(0, y_[:, 0], x.double())

    def loss(flat: Array) -> tuple[float, Array]:
        w = torch.from_numpy(flat.astype(np.float32)).view(d + 1, c)
        total, slope = 0.0, -counted.T
        for x, y_ in zip(xs, ys, strict=True):
            log_p = torch.log_softmax(x @ w, 1)
            total -= log_p.gather(1, y_).sum(dtype=torch.float64).item()
            slope += x.T @ log_p.exp_()
        slope[:d] += weight * w[:d]
        return (total + (weight * w[:d].square()).sum().item() / 2) / n, (slope / n).numpy().ravel()

    start = np.zeros((d + 1, c))
    start[d] = np.log(np.bincount(y) / n)
    found = minimize(
        loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps, "gtol": tolerance, "ftol": 1e-9}
    ).x.reshape(d + 1, c)
    return Logistic(turn @ found[:d], found[d])
