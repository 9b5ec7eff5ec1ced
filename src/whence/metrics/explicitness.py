"""Explicitness: can the value of a factor be read off the codes by a linear classifier?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.groups import Units
from whence.metrics.logistic import NUMBERS, Logistic, logistic
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe
from whence.metrics.sharing import portions
from whence.metrics.targets import both_vary, labels

ROWS = 30_000  #: to learn from, at most: a fit on more takes longer than all other metrics together


def explicitness(codes: Any, factors: Any, *, bins: int = 20, study: bool = False) -> float:
    r"""Mean over factors, and over their values, of the area under the ROC curve of one value against the rest.

    .. math::
        \frac{1}{K} \sum_k \frac{1}{|v_k|} \sum_{v} \bigl( 2 \, \mathrm{AUROC}\bigl(p(v_k = v \mid z)\bigr) - 1 \bigr)

    from a multinomial logistic regression on all codes, fitted on the first two thirds of the rows, or 30,000 of them,
    and scored on the others. A factor whose values hardly recur is cut into `bins` classes; a value that no test row
    has is left out, and one that no learnt row has scores chance. `study=True` leaves the area as it is, so that chance
    is 1/2, and fits all rows with scikit-learn, as disentanglement_lib does; codes that do not vary, which end it
    there, take no part in either.
    """
    return float(explicitness_each(codes, factors, bins=bins, study=study).mean())


def explicitness_each(codes: Any, factors: Any, *, bins: int = 20, study: bool = False) -> Array:
    """(K,): the explicitness of each factor."""
    pool = codes_and_factors(codes, factors)
    (z, _), (z_test, _) = pool.split()
    units, n = Units.of(z), len(z)
    some = np.arange(n)
    if n > ROWS and not study:
        some = np.sort(np.random.default_rng(0).choice(n, ROWS, replace=False))
    x = units(z[some], np.float64 if study else np.float32)
    each = np.empty(pool.v.shape[1])
    for k, label in enumerate(labels(pool.v, bins).T):
        y_test = label[n:]
        both_vary(label[some], y_test, k)
        seen, y = np.unique(label[some], return_inverse=True)
        found = np.full(label.max() + 1, 0.5)
        if study:
            found[seen] = auroc(probabilities(x, y, units(z_test, np.float64)), y_test[:, None] == seen)
        else:
            found[seen] = areas(logistic(x, y), units, z_test, y_test, seen)
        each[k] = found[np.unique(y_test)].mean()
    return each if study else 2 * each - 1


def areas(model: Logistic, units: Units, z: Array, y: Array, seen: Array) -> Array:
    """(C,): the area of each class on the test rows, some rows and some classes at a time: no table of all is held."""
    parts = portions(z, len(seen), NUMBERS)
    rest = np.concatenate([logsumexp(model.scores(units(part))) for part in parts])
    out = np.empty(len(seen))
    for those in portions(np.arange(len(seen)), len(z), NUMBERS):
        own = Logistic(model.w[:, those], model.b[those])
        scores = np.concatenate([own.scores(units(part)) for part in parts])
        scores -= rest[:, None]
        out[those] = auroc(scores, y[:, None] == seen[those])
    return out


def logsumexp(scores: Array) -> Array:
    """(N, C) to (N,)"""
    top = scores.max(1)
    return top + np.log(np.exp(scores - top[:, None]).sum(1))


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
    s, t = np.asarray(scores), np.asarray(truth, bool)
    out = np.full(s.shape[1], 0.5)
    for j, (score, positive) in enumerate(zip(s.T, t.T, strict=True)):
        ordered, own = np.sort(score), np.sort(score[positive])
        if pairs := len(own) * (len(ordered) - len(own)):
            below, upto = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
            out[j] = ((below + upto + 1).sum() - len(own) * (len(own) + 1)) / 2 / pairs  # mean ranks, less the least
    return out


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
