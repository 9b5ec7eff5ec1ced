"""Linear causal disentanglement from precision matrices: one perfect intervention a latent, nobody says on which."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from whence.descend import Run
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Method
from whence.methods.score_based import _multinode as multinode
from whence.methods.score_based._multinode import Blocks
from whence.methods.score_based._sources import flat, sources
from whence.methods.score_based.umni import Unmixed, UnmixedCode, check_rows, critical, state_of
from whence.representation import Representation
from whence.scores import Support
from whence.views import Environments, Spec, View

RARE = 1e-3  #: what happens this rarely is said not to happen
SEEN = 0.05  #: a change that chance makes as often as this is not seen
LEAST = 1.5  #: factor of a variance; where there are too few rows to see it, that nothing is seen is no error
REFINED = 20  #: steps of maximum likelihood, for the test of fit alone

# --- rank-one changes of a precision matrix --------------------------------------------------------------------------


class Change(NamedTuple):
    """How two precision matrices differ: twice log-likelihood ratios of Gaussian covariances."""

    whole: float  #: of no change, with m (m + 1) / 2 degrees of freedom
    rest: float  #: of a change of rank one, with m (m - 1) / 2
    along: Tensor  #: (m,), where that one is: :math:`\\Theta_1 - \\Theta_0 \\propto v v^\\top`

    def chance(self, inflation: float = 1.0) -> float:
        """How often the largest term is as large where nothing changes: the test of a change of rank one."""
        return float((by_chance(len(self.along)) >= (self.whole - self.rest) / inflation).double().mean())


def change(theta: Tensor, rows: Tensor) -> Change:
    r"""Of precisions (2, m, m) estimated from so many rows (2,).

    In coordinates in which both are diagonal, :math:`\Theta_0 = I` and :math:`\Theta_1 = \Lambda`, the ratio is a sum
    over eigenvalues, so the likeliest change of rank one leaves all but the largest term. It does not depend on the
    coordinates' units. Blocks of a precision are precisions given the other coordinates, so it holds for them too.
    """
    root = torch.linalg.cholesky(theta[0])
    inverse = torch.linalg.inv(root)
    value, vector = torch.linalg.eigh(inverse @ theta[1] @ inverse.T)
    share = rows / rows.sum()
    terms = rows.sum() * (share[0] + share[1] / value).log() + rows[1] * value.log()
    most = int(terms.argmax())
    v = root @ vector[:, most]
    return Change(float(terms.sum()), float(terms.sum() - terms[most]), v / v.norm())


@cache
def by_chance(m: int) -> Tensor:
    """Largest terms of the ratio of m-dimensional precisions that are the same, of many rows: 4,000 draws.

    They are half the squares of the extreme eigenvalues of symmetric Gaussian matrices.
    """
    a = torch.randn(4000, m, m, generator=Generator().manual_seed(m), dtype=torch.float64)
    return torch.linalg.eigvalsh((a + a.mT) / 2**0.5).square().amax(1) / 2


def apart(rows: Tensor) -> Tensor:
    """(n, n - k): an orthonormal basis of what is orthogonal to the k rows."""
    return torch.linalg.qr(rows.T, mode="complete").Q[:, len(rows) :]


class Order(NamedTuple):
    """Latents, causes first: the environment that intervenes on each, and those of its predecessors that cause it."""

    environments: tuple[int, ...]
    causes: tuple[tuple[int, ...], ...]  #: direct or not
    flag: Tensor  #: (n, n), orthonormal: the first rows span the encoder's rows of the first latents
    chance: tuple[float, ...]  #: how often an environment that changes nothing more would differ as much


def partial_order(theta: Tensor, rows: Tensor, n: int, *, level: float, inflation: float = 1.0) -> Order:
    r"""n latents from precisions (1 + E, n, n), the observational one first.

    An intervention on a latent changes the precision by :math:`b b^\top - a a^\top`, both in the span of the encoder's
    rows of the latent and its ancestors: of rank one, once those of its ancestors are projected out. So the next
    environment is the one whose change, apart from the latents found, is nearest to rank one. The predecessors without
    which it is still of rank one are no ancestors: they are dropped, the least missed first.
    """
    from scipy.stats import chi2

    Q, flag = torch.zeros(2, 0, n).to(theta)
    found: list[int] = []
    causes: list[tuple[int, ...]] = []
    chance: list[float] = []
    left = list(range(1, len(theta)))
    pairs = max(n * (n - 1) / 2, 1)

    def beyond(known: Tensor, e: int) -> tuple[Change, Tensor]:
        """The change of environment e apart from known rows, and the row that is new in it."""
        U = apart(known)
        seen = change(U.T @ theta[[0, e]] @ U, rows[[0, e]])
        return seen, U @ seen.along

    while len(found) < n:
        new = {e: beyond(flag, e) for e in left}
        tail = {e: new[e][0].chance(inflation) for e in left}
        e = min([e for e in left if tail[e] < RARE] or left, key=lambda e: new[e][0].rest)
        kept = list(range(len(found)))
        missed = {j: beyond(Q[[i for i in kept if i != j]], e)[0].rest for j in kept}
        rest = beyond(Q, e)[0].rest
        for j in sorted(kept, key=lambda j: missed[j]):
            fewer = [i for i in kept if i != j]
            without = beyond(Q[fewer], e)[0].rest
            if without - rest < inflation * chi2.isf(level / pairs, n - len(kept)):
                kept, rest = fewer, without
        every = sorted({*kept, *(k for j in kept for k in causes[j])})
        Q = torch.cat([Q, beyond(Q[every], e)[1][None]])
        flag = torch.cat([flag, new[e][1][None]])
        found.append(e)
        causes.append(tuple(every))
        chance.append(tail[e])
        left.remove(e)
    return Order(tuple(found), tuple(causes), flag, tuple(chance))


def centred(T: Tensor) -> Tensor:
    """Second moments of (1, u) as if all means were 0."""
    out = T - T[:, :, :1] * T[:, :1]
    out[:, 0, 0] = 1
    return out


def precisions(T: Tensor) -> Tensor:
    return torch.linalg.inv(centred(T)[:, 1:, 1:])


class Model(NamedTuple):
    H: Tensor  #: (n, n): encoder, rows of unit variance where they are intervened on
    B: Tensor  #: (n, n), strictly lower triangular: row i has the effects of its causes on latent i


def model_of(T: Tensor, count: Tensor, order: Order) -> Model:
    r"""The encoder :math:`H = R Q` and the effects, from second moments (1 + E, 1 + n, 1 + n) of (1, u).

    Row i of Q is where the precision changes apart from the rows of its ancestors. A perfect intervention leaves of
    latent i noise alone, so its row of H is the last row of the inverse Cholesky factor of the covariance of the rows
    of Q of its ancestors and its own, in the environment that intervenes on it. Effects are regressions on ancestors in
    the other environments.
    """
    n = len(order.environments)
    cov, theta = centred(T)[:, 1:, 1:], precisions(T)
    Q, H, B = torch.zeros(3, n, n).to(T)
    for i, (e, causes) in enumerate(zip(order.environments, order.causes, strict=True)):
        U = apart(Q[list(causes)])
        Q[i] = U @ change(U.T @ theta[[0, e]] @ U, count[[0, e]]).along
        among = torch.tensor([*causes, i])
        H[i] = last_of_inverse(Q[among] @ cov[e] @ Q[among].T) @ Q[among]
        if causes:
            others = count.clone()
            others[e] = 0
            P = torch.einsum("g,gij->ij", others / others.sum(), T)
            rows = multinode.beside_one(H[among])
            P = rows @ P @ rows.T
            B[i, among[:-1]] = torch.linalg.solve(P[:-1, :-1], P[:-1, -1])[1:]
    return Model(H, B)


def last_of_inverse(cov: Tensor) -> Tensor:
    """The last row of the inverse Cholesky factor: what is left of the last coordinate given the others, of unit
    variance."""
    unit = torch.zeros(len(cov), 1).to(cov)
    unit[-1] = 1
    return torch.linalg.solve_triangular(torch.linalg.cholesky(cov).T, unit, upper=True)[:, 0]


# --- the method ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LinearGaussianCRL(Method):
    r"""Linear causal disentanglement: a linear Gaussian causal model under a linear mixing, from precision matrices.

    .. math:: \Theta_e - \Theta_0 = b_e b_e^\top - a_e a_e^\top, \qquad
              a_e, b_e \in \operatorname{span}\{h_i, h_j : j \in \operatorname{an}(i)\}, \qquad H = R\, Q

    for an intervention on latent i alone, where :math:`h_j` are the encoder's rows. Environments are taken in an order
    in which each difference is of rank one apart from those before; predecessors that are not needed for that are no
    ancestors; the factors are Q, and R comes from the Cholesky factor of the environment that makes its latent noise.

    Departures from the paper: (1) "of rank one" is a likelihood ratio, which knows the number of rows and no units,
    instead of a share of squared singular values above .99; it is scaled for noise that is not Gaussian. (2) Effects
    are regressions over all environments but the latent's own, not over the observational one alone. (3) An edge is an
    effect that differs from 0 by a t test whose variance comes from blocks of rows left out in turn, so that it carries
    the encoder's uncertainty; nothing is thresholded. (4) Environments may be more than latents, if each intervenes on
    one of them.

    Not identified: which latent is which (they come in a causal order), signs and scales. That interventions are
    perfect cannot be seen in linear models: soft ones look perfect for some other latents.
    """

    latents: int | None = None  #: n; none: the dimensions that observations vary in
    examples: int = 100_000  #: observations to look at in each environment, at most
    level: float = 0.01  #: probability that there is any false edge

    needs: ClassVar[type[View]] = Environments
    reference: ClassVar[Reference] = Reference(
        key="squires2023linear",
        authors="Squires, Chandler and Seigal, Anna and Bhate, Salil S. and Uhler, Caroline",
        title="Linear Causal Disentanglement via Interventions",
        venue="International Conference on Machine Learning",
        year=2023,
        url="https://arxiv.org/abs/2211.16467",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "latents up to order and scale, the graph and which environment intervenes on which latent",
        (
            "the mixing is linear and injective",
            "causal mechanisms are linear and noise is Gaussian",
            "every latent is intervened on, alone, in some environment",
            "interventions are perfect: they cut the latent from its causes and change its variance",
        ),
        "linear Gaussian causal models under a linear mixing, one perfect intervention a latent (Squires et al. 2023)",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_linear_gaussian.py"),)

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level is a probability between 0 and 1, got {self.level}.")
        if self.latents is not None and self.latents < 1:
            raise ValueError(f"There is at least one latent, got latents={self.latents}.")

    def skeleton(self, spec: Spec) -> UnmixedCode:
        return UnmixedCode(spec, self.latents or spec.latents or spec.environments)

    def fit(self, data: View, run: Run) -> Representation:
        if not isinstance(data, Environments):
            raise TypeError(f"LinearGaussianCRL needs Environments, got {type(data).__name__}.")

        x = [flat(source) for source in sources(data, self.examples, run)]
        support = Support.find(x, self.latents)
        self.check(data, support)
        blocks = Blocks.of([support.project(source) for source in x])
        check_rows(blocks, data, "LinearGaussianCRL")
        white, _ = multinode.whiten(blocks.totals[0][0])
        blocks = blocks.under(white)
        code = UnmixedCode(data.spec._replace(latents=support.n), support.n)
        code.load_state_dict(state_of(self.unmix(blocks, data), blocks, white, support))
        return code

    def unmix(self, blocks: Blocks, data: Environments) -> Unmixed:
        from scipy.stats import chi2

        (T, count), b = blocks.totals, blocks.rows.shape[1]
        n = T.shape[-1] - 1
        self.check_copies(T, data)
        inflation = float(multinode.spread_of_moments(blocks).mean()) / (n + n * (n + 1) / 2)
        order = partial_order(precisions(T), count, n, level=self.level, inflation=inflation)
        hits = self.hits(T, count, order, inflation, data)
        fit = multinode.refine(blocks, order.flag, hits, REFINED)
        scaled = fit.cost / multinode.uncertainty(blocks, multinode.mechanisms(T, count, fit.L, hits), hits).inflation
        if chi2.sf(scaled, expected := multinode.freedom(n, hits)) < RARE:
            warnings.warn(
                f"The data do not look like a linear causal model of {n} latents of which each environment changes "
                f"one: the likelihood ratio against free covariances is {scaled:.4g}, expected {expected}. "
                "If environments may change several latents, use UMNI.",
                stacklevel=2,
            )
        H, B = model_of(T, count, order)
        others = []
        for i in range(b):
            rows = blocks.rows.clone()
            rows[:, i] = 0
            H_, B_ = model_of(*Blocks(blocks.second, rows).totals, order)
            sign = torch.where((H_ * H).sum(1) < 0, -1.0, 1.0).to(H)
            others.append(sign[:, None] * B_ * sign)
        effects = torch.stack(others)
        variance = (effects - effects.mean(0)).square().sum(0) * (b - 1) / b
        squares = torch.where(variance > 0, B.square() / variance.clamp_min(1e-300), 0.0)
        return Unmixed(H, hits, squares, critical(self.level, n, b), (scaled, float(expected)))

    def hits(self, T: Tensor, count: Tensor, order: Order, inflation: float, data: Environments) -> Tensor:
        """(n, E), one latent each; environments too many get the likeliest one, or none if they change nothing."""
        n, m, theta = len(order.flag), len(data.told), precisions(T)
        T = centred(T)
        hits = torch.zeros(n, m).to(T)
        hits[range(n), [e - 1 for e in order.environments]] = 1
        idle = [e for e in range(1, 1 + m) if change(theta[[0, e]], count[[0, e]]).chance(inflation) > SEEN]
        for e in sorted({*range(1, 1 + m)} - {*order.environments, *idle}):
            costs = []
            for one in torch.eye(n).to(hits):
                hits[:, e - 1] = one
                costs.append(multinode.misfit(T, count, order.flag, hits))
            hits[:, e - 1] = torch.eye(n).to(hits)[costs.index(min(costs))]
        least = torch.tensor([1.0, LEAST]).to(T)
        doubtful = [e for e, chance in zip(order.environments, order.chance, strict=True) if chance > SEEN]
        if doubtful:
            why = "; ".join(self.why(e, e in idle, theta, count, data) for e in doubtful)
            if any(change(least.view(2, 1, 1), count[[0, e]]).chance(inflation) < SEEN for e in doubtful):
                raise ValueError(
                    f"LinearGaussianCRL needs for each of {n} latents an environment that changes its variance: {why}. "
                    "Pass other interventions, or ask for fewer latents."
                )
            warnings.warn(f"There are too few rows to tell latents apart: {why}. Pass more rows.", stacklevel=3)
        if spare := [name for name, column in zip(data.names, hits.T, strict=True) if not column.any()]:
            warnings.warn(
                f"No difference of covariances from {data.control} is seen in {', '.join(spare)}; it tells "
                "LinearGaussianCRL nothing.",
                stacklevel=3,
            )
        return hits

    def why(self, e: int, idle: bool, theta: Tensor, count: Tensor, data: Environments) -> str:
        """An environment adds nothing if it is idle, or repeats what another one does."""
        name = data.names[e - 1]
        if idle:
            return f"no difference of covariances from {data.control} is seen in {name}"

        def beyond(other: int) -> float:
            U = apart(change(theta[[0, other]], count[[0, other]]).along[None])
            return change(U.T @ theta[[0, e]] @ U, count[[0, e]]).whole

        twin = min((f for f in range(1, len(theta)) if f != e), key=beyond)
        return f"beyond noise {name} changes nothing that {data.names[twin - 1]} does not change"

    def check_copies(self, T: Tensor, data: Environments) -> None:
        names = (data.control, *data.names)
        for e, f in torch.combinations(torch.arange(len(T))).tolist():
            if torch.allclose(T[e], T[f], rtol=0, atol=1e-9):
                raise ValueError(f"{names[e]} and {names[f]} hold the same observations. Leave one of them out.")

    def check(self, data: Environments, support: Support) -> None:
        n, m = support.n, len(data.told)
        if m < n:
            raise ValueError(
                f"LinearGaussianCRL needs an interventional environment for each latent, got {m} for {n} latents "
                f"({support.spectrum}). Pass more environments, or fewer latents."
            )
        pairs = list(zip(data.names, data.told, strict=True))
        if soft := [name for name, env in pairs if env.kind == "soft"]:
            raise ValueError(
                f"LinearGaussianCRL needs perfect interventions, and the view says that {', '.join(soft)} is soft. "
                "Use UMNI(kind='soft')."
            )
        if several := [name for name, env in pairs if env.targets is not None and len(env.targets) > 1]:
            raise ValueError(
                "LinearGaussianCRL needs interventions on one latent each, and the view says that "
                f"{', '.join(several)} has several targets. Use UMNI."
            )
