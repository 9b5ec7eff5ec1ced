"""Explicitness: can the value of a factor be read off the codes by a linear classifier?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.groups import Units
from whence.metrics.logistic import logistic
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe
from whence.metrics.targets import both_vary, labels


def explicitness(codes: Any, factors: Any, *, bins: int = 20, study: bool = False) -> float:
    r"""Mean over factors, and over their values, of the area under the ROC curve of one value against the rest.

    .. math::
        \frac{1}{K} \sum_k \frac{1}{|v_k|} \sum_{v} \bigl( 2 \, \mathrm{AUROC}\bigl(p(v_k = v \mid z)\bigr) - 1 \bigr)

    from a multinomial logistic regression on all codes, fitted on the first two thirds of the rows and scored on the
    others. A factor whose values hardly recur is cut into `bins` classes; a value that no test row has is left out, and
    one that no learnt row has scores chance. `study=True` leaves the area as it is, so that chance is 1/2, and fits
    with scikit-learn, as disentanglement_lib does; codes that do not vary, which end it there, take no part in either.
    """
    return float(explicitness_each(codes, factors, bins=bins, study=study).mean())


def explicitness_each(codes: Any, factors: Any, *, bins: int = 20, study: bool = False) -> Array:
    """(K,): the explicitness of each factor."""
    pool = codes_and_factors(codes, factors)
    (z, _), (z_test, _) = pool.split()
    units = Units.of(z)
    precision = np.float64 if study else np.float32
    x, x_test = units(z, precision), units(z_test, precision)
    areas = np.empty(pool.v.shape[1])
    for k, label in enumerate(labels(pool.v, bins).T):
        y, y_test = label[: len(z)], label[len(z) :]
        both_vary(y, y_test, k)
        seen, y = np.unique(y, return_inverse=True)
        scores = probabilities(x, y, x_test) if study else logistic(x, y).log_p(x_test)
        found = np.full(label.max() + 1, 0.5)
        found[seen] = auroc(scores, y_test[:, None] == seen)
        areas[k] = found[np.unique(y_test)].mean()
    return areas if study else 2 * areas - 1


def probabilities(x: Array, y: Array, x_test: Array) -> Array:
    # disentanglement_lib@86a644d (modularity_explicitness.py): scikit-learn's defaults
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression().fit(x, y).predict_proba(x_test)


def auroc(scores: Any, truth: Any) -> Array:
    r"""(C,): how often a positive outranks a negative, ties counting half; 1/2 where one of both is missing.

    Columns of `scores` (N, C) and of `truth` (N, C), bool, are separate questions.
    """
    from scipy.stats import rankdata

    s, t = np.asarray(scores), np.asarray(truth, bool)
    ranks = rankdata(s, axis=0)
    n = t.sum(0).astype(np.float64)
    pairs = n * (len(t) - n)
    above = (ranks * t).sum(0) - n * (n + 1) / 2
    return np.divide(above, pairs, out=np.full(n.shape, 0.5), where=pairs > 0)


@dataclass(frozen=True, kw_only=True)
class Explicitness(Metric):
    """Explicitness: can the value of a factor be read off the codes by a linear classifier?

    Misses: in how many codes a factor is, and what else is in them: a rotated code is as explicit as a perfect one.
    Extreme values are found more easily than those between, so that a perfect code of many ordered values stays
    somewhat below 1.
    """

    bins: int = 20  #: classes of a factor whose values hardly recur
    study: bool = False  #: the plain area, whose chance level is 1/2, as in disentanglement_lib

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="ridgeway2018learning",
        authors="Ridgeway, Karl and Mozer, Michael C.",
        title="Learning Deep Disentangled Embeddings with the F-Statistic Loss",
        venue="Advances in Neural Information Processing Systems",
        year=2018,
        url="https://arxiv.org/abs/1802.05312",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_explicitness.py"),)

    def measure(self, probe: Probe) -> float:
        return explicitness(*probe.pool, bins=self.bins, study=self.study)
