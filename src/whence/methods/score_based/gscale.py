"""GSCALE: nonlinear mixings undone by hard interventions, from differences of scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn

from whence.descend import ALL, Adam, Cosine, Recipe, Run, Terms, Turn, descend, mix
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Gradient
from whence.methods.score_based import _graph as graphs
from whence.methods.score_based._embedding import FOLDED, LANDMARKS, embedding, folding
from whence.methods.score_based._maps import Bent, set_linear
from whence.methods.score_based._pairs import Pair, between, find_pairs, pulled, pulled_in_chunks, told_pairs
from whence.methods.score_based._sources import sources
from whence.methods.score_based.fronts import CODE_LOST, Code, Either, Front, Principal, small_bytes
from whence.nets import Nets
from whence.representation import Representation, as_given
from whence.scores import MulticlassRatio, PictureRatio, ScoreEstimator
from whence.scores.pictures import floats
from whence.terms.changes import axis_distance, leak, mean_changes
from whence.views import Environments, Spec, View

POINTS = 10_000  #: observations that score differences are evaluated at


class DisentangledCode(Representation):
    r"""Latents :math:`z = h_2(h_1(x))`, the graph between them, and regressions that stand for their mechanisms."""

    def __init__(self, spec: Spec, dims: int, method: GSCALE) -> None:
        super().__init__(spec, dims)
        self.front: Code = method.front_for(spec).build(tuple(spec.shape), dims)
        self.reducer = method.reducer(self.front.dims, dims)
        self.maps = method.maps(1, dims)
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("scale", torch.ones(dims))
        self.register_buffer("confidence", torch.zeros(dims, dims))
        self.register_buffer("coefficients", torch.zeros(dims, graphs.width(dims)))
        self.register_buffer("known", torch.zeros(dims, dtype=torch.bool))
        self.register_buffer("partners", torch.full((dims, 2), -1))
        self.register_buffer("changes", torch.zeros(2, dims, dims))
        self.register_buffer("errors", torch.zeros(len(Quality._fields)))

    mean: Tensor
    scale: Tensor
    confidence: Tensor
    coefficients: Tensor
    known: Tensor
    partners: Tensor
    changes: Tensor  #: mean score differences (n, n): of each pair, and of the observational environment and its first
    errors: Tensor

    def codes(self, x: Tensor) -> Tensor:
        u = self.reducer.encoder(self.front.encode(x)[None])
        return (self.maps.encoder(u)[0] - self.mean) / self.scale

    def lifted(self, z: Tensor) -> Tensor:
        """Latents to the code of the first stage."""
        return self.reducer.decoder(self.maps.decoder((z * self.scale + self.mean)[None]))[0]

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        return self.front.decode(self.lifted(z))

    @property
    def graph(self) -> Tensor:
        """A[i, j]: the confidence that latent i causes latent j; above one half it counts as an edge."""
        return self.confidence

    @property
    def identified(self) -> tuple[bool, ...]:
        """Which latents the theory identifies: those with two hard interventions. The others are what is left."""
        return tuple(self.known.tolist())

    @property
    def environments(self) -> tuple[tuple[int, int] | None, ...]:
        """Of each latent the two environments whose difference runs along it; 0 is the observational one."""
        return tuple(None if a < 0 else (a, b) for a, b in self.partners.tolist())

    @property
    def quality(self) -> Quality:
        """What the stages lost; `Quality.failed` reads it without labels."""
        return Quality(*self.errors.tolist())

    def do(self, x: Any, do: Mapping[int, float | Callable[[Tensor], Tensor]]) -> Any:
        """What x would have been, had latents been set otherwise: `{latent: value}`, or a function of its value.

        Latents have unit variance in the observational environment. Noise is taken to be additive: what the regression
        on the causes leaves of a latent stays. What of x the code does not hold stays as it was; of a picture it is
        left out, or the outline of a thing that has moved would stay behind.
        """
        for i in do:
            if not 0 <= i < self.dims:
                raise IndexError(f"Latents are numbered 0 to {self.dims - 1}, got {i}.")
        features, causes = graphs.Features.draw(self.dims), self.confidence > 0.5
        order = graphs.causal_order(causes.double().cpu())

        def predicted(z: Tensor, i: int) -> Tensor:
            return features(z, causes[:, i]) @ self.coefficients[i]

        def acted(self: DisentangledCode, x: Tensor) -> Tensor:
            self.check(x)
            z = self.codes(x)
            new = z.clone()
            for i in order:
                if causes[:, i].any():
                    new[:, i] = z[:, i] + predicted(new, i) - predicted(z, i)
                if i in do:
                    how = do[i]
                    new[:, i] = how(new[:, i]) if callable(how) else float(how)
            moved = self.front.decode(self.lifted(new))
            return moved if len(self.spec.shape) == 3 else x + moved - self.front.decode(self.lifted(z))

        return as_given(acted)(self, x)


class Quality(NamedTuple):
    """Shares of variance lost, and the objective, all without labels."""

    code: float = 0.0  #: of observations, by the first stage
    reduction: float = 0.0  #: of its code, by the reduction to as many numbers as latents
    folding: float = 1.0  #: of the reduction: how far apart in the code are its neighbours; 1 at best
    leak: float = 0.0  #: what score differences have off their axis, relative to what they have on it
    reconstruction: float = 0.0  #: of the reduced code, by the last stage
    attempts: float = 1.0  #: at the reduction

    @property
    def failed(self) -> str:
        """Why latents are not to be trusted; empty if nothing speaks against it."""
        reasons = []
        if self.code > CODE_LOST:
            reasons.append(f"the first stage loses {self.code:.1%} of the variance of observations")
        if self.reduction > REDUCTION_LOST:
            reasons.append(f"the reduction loses {self.reduction:.1%} of the variance of the code")
        if self.folding > FOLDED:
            reasons.append(f"neighbours in the reduced code are {self.folding:.1f} times too far apart, as in folds")
        if self.leak > LEAKING:
            reasons.append(f"score differences have {self.leak:.2f} off their axis for 1 on it")
        return " and ".join(reasons)


# Where known truth said that a run had failed, and one that had not was well below.
REDUCTION_LOST = 0.1  #: share of the variance of the code
LEAKING = 0.3  #: mean of each other latent; .03 to .12 in good runs on pictures, .4 in bad ones


class Points(NamedTuple):
    u: Tensor  #: (B, n)
    d: Tensor  #: (P, B, n)


@dataclass(frozen=True, kw_only=True)
class Rows(View[Points]):
    """Points and score differences at them, drawn with replacement."""

    u: Tensor
    d: Tensor  #: (N, P, n)

    def gather(self, ticket: Tensor, rng: Generator) -> Points:
        return Points(self.u[ticket], self.d[ticket].transpose(0, 1))

    @classmethod
    def of(cls, u: Tensor, d: Tensor) -> Rows:
        return cls(
            shape=(u.shape[1],),
            draw_=lambda n, rng: torch.randint(len(u), (n,), generator=rng),
            observe=lambda ticket, rng: u[ticket],
            u=u,
            d=d,
        )


@dataclass(frozen=True, kw_only=True)
class GSCALE(Gradient):
    r"""Two hard interventions on each latent: the map under which score differences of a pair lie along one axis.

    .. math:: \min_{h} \sum_i \bigl\| \mathbb{E}\, |J_{h^{-1}}^\top(z)\, (s^i - \tilde s^i)| - e_i \bigr\|
              + \lambda\, \mathbb{E} \| h^{-1}(h(x)) - x \|^2

    for the scores :math:`s^i, \tilde s^i` of the two environments of latent i. Stages: (1) a code of a few numbers; (2)
    a code of more numbers than there are latents is reduced to as many, beginning at coordinates that do not fold: of
    blurred pictures, or of a manifold embedding; (3) score differences on these, as gradients of log-ratios, from one
    classifier of all environments (`on="code"` or `"pictures"`: there, and carried by vector-Jacobian products); (4)
    the objective above, in those numbers, with restarts side by side, the best taken by its loss; (5) the graph. Scores
    are carried from space to space by vector-Jacobian products. Each stage is a method: `code`, `reduced`,
    `differences`, `disentangled`, `graph_of`; each that is trained has a checkpoint in the run's folder.

    Departures from the paper: the default objective `ratio` is what differences have off their axis over what they
    have on it, which does not change with the scale of latents. The published one (`axes`) does: it fixes scales that
    are not identified, and weighs strong interventions more. The graph is not read off with a fixed threshold. Codes
    have unit variance in the observational environment.

    With one intervention a node, differences from the observational environment are used in the same way, although
    they have components along causes too: nothing is guaranteed. With interventions on some latents only, these are
    identified, and the others are what is left (`representation.identified`).
    """

    latents: int | None = None  #: n; none: as many as are intervened on
    front: Front | None = None  #: the first stage; none: Principal for vectors, Either for pictures
    scores: ScoreEstimator | None = None  #: of differences; none: MulticlassRatio, on pictures PictureRatio
    on: Literal["reduced", "code", "pictures"] = "reduced"  #: where score differences are learned
    per_node: int = 1  #: environments of a latent, where nobody says which belong together
    objective: Literal["ratio", "axes"] = "ratio"  #: off over on the axis, or the published distance from the axes
    weight: float = 10.0  #: of the reconstruction
    rounds: int = 1  #: of stages 3 and 4: from the second on, scores are learned on the latents of the one before
    restarts: int = 2  #: of the last stage, side by side
    hidden: tuple[int, ...] = (64, 64)  #: of the maps of the last stage
    reducing: tuple[int, ...] = (256, 256)  #: of the maps of the reduction
    embedding_steps: float = 0.5  #: of the fit to the embedding, relative to the recipe
    reduction_steps: float = 1.5  #: of the reduction, relative to the recipe
    retries: int = 1  #: of a code that loses much, and of a reduction that does, or looks folded
    examples: int = 10_000  #: observations of each environment, at most
    level: float = 0.01  #: probability that there is any false edge, if codes have no error that is not seen

    recipe: ClassVar[Recipe] = Recipe(steps=2_000, batch=256, optimiser=Adam(lr=2e-3), schedule=Cosine())
    needs: ClassVar[type[View]] = Environments
    design: ClassVar[Mapping[str, Any]] = {"per_node": 2}
    reference: ClassVar[Reference] = Reference(
        key="varici2025score",
        authors='Var{\\i}c{\\i}, Burak and Acart{\\"u}rk, Emre and Shanmugam, Karthikeyan and Kumar, Abhishek '
        "and Tajer, Ali",
        title="Score-based Causal Representation Learning: Linear and General Transformations",
        venue="Journal of Machine Learning Research",
        year=2025,
        url="https://arxiv.org/abs/2402.00849",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "two hard interventions a latent: each latent up to a monotone map, and the graph; on some latents only: "
        "those; one hard intervention a latent: nothing",
        (
            "the mixing is injective and smooth",
            "interventions are hard, on one latent each, and the two of a latent have different densities everywhere",
            "densities are positive and smooth",
            "score differences are exact, and the objective is minimised",
        ),
        "two hard interventions a latent under any injective mixing (Varıcı et al. 2025)",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_gscale.py"),
        Evidence("benchmarked", "benchmarks/gscale_table9.md"),
        Evidence("benchmarked", "benchmarks/gscale_images.md"),
    )

    def __post_init__(self) -> None:
        if self.per_node not in (1, 2):
            raise ValueError(f"There are one or two environments a latent, got per_node={self.per_node}.")
        if self.on not in ("reduced", "code", "pictures"):
            raise ValueError(f"Score differences are learned on 'reduced', 'code' or 'pictures', got on={self.on!r}.")
        if self.objective not in ("ratio", "axes"):
            raise ValueError(f"The objective is 'ratio' or 'axes', got {self.objective!r}.")
        if min(self.restarts, self.rounds) < 1 or (self.latents is not None and self.latents < 1):
            raise ValueError(
                f"restarts, rounds and latents are at least 1, got {self.restarts}, {self.rounds} and {self.latents}."
            )
        if self.rounds > 1 and self.scores is not None and self.scores.truth:
            raise ValueError(f"Scores that are told are not learned again, got rounds={self.rounds}. Use rounds=1.")
        if not 0 < self.level < 1:
            raise ValueError(f"level is a probability between 0 and 1, got {self.level}.")

    # --- networks ----------------------------------------------------------------------------------------------------

    def front_for(self, spec: Spec) -> Front:
        return self.front or (Either() if len(spec.shape) == 3 else Principal())

    @property
    def linear(self) -> bool:
        """Nothing but a linear map is left to undo after the first stage."""
        return self.front is not None and self.front.linear

    def maps(self, groups: int, n: int) -> Nets:
        hidden = () if self.linear else self.hidden
        return Nets(encoder=Bent(groups, n, n, hidden), decoder=Bent(groups, n, n, hidden))

    def reducer(self, dims: int, n: int) -> Nets:
        hidden = () if self.linear else self.reducing
        return Nets(encoder=Bent(1, dims, n, hidden), decoder=Bent(1, n, dims, hidden))

    def init(self, spec: Spec) -> nn.Module:
        return self.maps(self.restarts, self.latents or spec.latents or max(spec.environments, 1))

    def represent(self, nets: nn.Module, spec: Spec) -> DisentangledCode:
        code = self.skeleton(spec)
        for name in ("encoder", "decoder"):
            getattr(code.maps, name).load_state_dict(nets.get_submodule(name).member(0))  # type: ignore[operator]
        return code

    def skeleton(self, spec: Spec) -> DisentangledCode:
        return DisentangledCode(spec, self.latents or spec.latents or max(spec.environments, 1), self)

    # --- the objective -----------------------------------------------------------------------------------------------

    def loss(self, nets: Any, batch: Points, t: int) -> Terms:
        """Summed over restarts, which share no weights."""
        change, reconstruction = self.losses(nets, batch)
        return Terms(change=change.sum(), reconstruction=self.weight * reconstruction.sum())

    def losses(self, nets: Any, batch: Points) -> tuple[Tensor, Tensor]:
        """Of each restart: (R,) what differences have off their axis, and (R,) the share of variance lost."""
        r = len(nets.decoder.slope)
        u = batch.u.expand(r, *batch.u.shape)
        z = self.encoded(nets, u)
        back, d = nets.decoder.pull(z, batch.d[None])
        D = mean_changes(d)
        change = leak(D, z.std(1)) if self.objective == "ratio" else axis_distance(D)
        lost = (back - u).square().sum(-1).mean(1) / (u - u.mean(1, keepdim=True)).square().sum(-1).mean(1)
        return change, lost

    def encoded(self, nets: Any, u: Tensor) -> Tensor:
        """A linear encoder is the inverse of its decoder."""
        if not self.linear:
            return nets.encoder(u)
        return torch.linalg.solve(nets.decoder.slope.mT, (u - nets.decoder.shift).mT).mT

    # --- the stages --------------------------------------------------------------------------------------------------

    def fit(self, data: View, run: Run) -> Representation:
        if not isinstance(data, Environments):
            raise TypeError(f"GSCALE needs Environments, got {type(data).__name__}.")
        pairs = told_pairs(data, self.per_node)
        many = len(data.told) // 2 if pairs is None else len(pairs)
        n = self.latents or many
        if many > n:
            raise ValueError(
                f"Environments intervene on {many} latents, got latents={n}. Leave it out, or raise it; where nobody "
                "says which environments belong together, per_node=2 joins them."
            )
        code = self.skeleton(data.spec._replace(latents=n))
        code.to(run.device)

        x = sources(data, self.examples, run)
        lost = self.code(code.front, x, run, data.spec)
        y = [encoded(code.front, source(), run.device) for source in x]
        self.check_codes(code.front, y, n, data)
        u, attempts, reduction = self.reduced(code, y, x[0], run)
        d = self.differences(code, x, y, u, run)
        pairs = pairs or find_pairs(u[0][:POINTS], d, straight=self.linear)
        last = self.disentangled(code, u[0][:POINTS], between(d, pairs), run)
        for more in range(1, self.rounds):
            d = self.sharper(code, u, run)
            last = self.disentangled(code, u[0][:POINTS], between(d, pairs), run, stage=f"train-{more}")
        self.finish(code, u, d, pairs)
        quality = Quality(lost, *reduction, *last, float(attempts))
        code.errors = torch.tensor(quality)
        if quality.failed:
            warnings.warn(f"This run does not trust its latents: {quality.failed}. Try another seed.", stacklevel=2)
        return code

    def check_codes(self, front: Code, y: list[Tensor], n: int, data: Environments) -> None:
        if front.rank < n:
            raise ValueError(
                f"GSCALE needs observations that vary in at least as many directions as there are latents, {n}, got "
                f"{front.rank}. Give more observations, or fewer latents."
            )
        for name, rows in zip((data.control, *data.names), y, strict=True):
            if len(rows) < 2 * front.rank + 2:
                raise ValueError(
                    f"GSCALE needs more than {2 * front.rank + 1} observations of an environment for a code of "
                    f"{front.rank} numbers, got {len(rows)} in {name}."
                )

    def code(self, front: Code, sources: Sequence[Callable[[], Iterator[Tensor]]], run: Run, spec: Spec) -> float:
        """Stage 1: learn the code; the share of variance it loses."""
        kind = self.front_for(spec)
        best: tuple[float, dict[str, Tensor]] | None = None
        for attempt in range(1, 2 + (self.retries if kind.chance else 0)):
            torch.manual_seed(mix(run.seed, "code", attempt))
            again(front)
            lost = kind.learn(front, sources, run, attempt)
            if best is None or lost < best[0]:
                best = lost, {name: tensor.clone() for name, tensor in front.state_dict().items()}
            if best[0] <= CODE_LOST:
                break
        assert best is not None
        front.load_state_dict(best[1])
        front.requires_grad_(False).eval()
        return best[0]

    def differences(
        self,
        code: DisentangledCode,
        x: Sequence[Callable[[], Iterator[Tensor]]],
        y: Sequence[Tensor],
        u: Sequence[Tensor],
        run: Run,
    ) -> Tensor:
        """Stage 3: (E, N, n), observational less interventional scores at observational reduced codes."""
        k, at = code.front.rank, u[0][:POINTS]
        estimator = self.scores or (PictureRatio() if self.on == "pictures" else MulticlassRatio())
        if estimator.truth:
            return torch.cat([self.told(estimator, code, part, len(y) - 1) for part in at.split(256)], 1)
        recipe = getattr(estimator, "recipe", None)
        if recipe is not None and run.recipe.steps < self.recipe.steps:  # a short run is short in all its stages
            steps = max(1, round(recipe.steps * run.recipe.steps / self.recipe.steps))
            estimator = replace(estimator, recipe=replace(recipe, steps=steps))  # type: ignore[type-var]
        if self.on == "reduced":
            return estimator.fit(u, run=run).differences(at)
        if self.on == "pictures":
            return self.differences_of_pictures(estimator, code, x, at, run)
        found = estimator.fit([rows[:, :k] for rows in y], run=run).differences(y[0][:POINTS, :k])
        found = torch.cat([found, found.new_zeros(*found.shape[:2], code.front.dims - k)], 2)
        return pulled_in_chunks(lambda at: code.reducer.decoder(at[None])[0], at, found)

    def differences_of_pictures(
        self,
        estimator: ScoreEstimator,
        code: DisentangledCode,
        x: Sequence[Callable[[], Iterator[Tensor]]],
        at: Tensor,
        run: Run,
    ) -> Tensor:
        """As published: learned on pictures, of the size the code is made of, and carried to the reduced code. No more
        than a chunk of them is held as pictures."""
        front = code.front
        pictures = [torch.cat([small_bytes(front, part) for part in source()]) for source in x]
        scores = estimator.fit(pictures, run=run)

        def decode(u: Tensor) -> Tensor:
            return front.small(front.decode(code.reducer.decoder(u[None])[0]))

        parts = zip(at.split(256), pictures[0][: len(at)].split(256), strict=True)
        return torch.cat([pulled(decode, u, scores.differences(floats(own).to(u))).detach() for u, own in parts], 1)

    def told(self, estimator: ScoreEstimator, code: DisentangledCode, u: Tensor, environments: int) -> Tensor:
        """True differences at observations, carried to the reduced code."""

        def decode(u: Tensor) -> Tensor:
            return code.front.decode(code.reducer.decoder(u[None])[0])

        with torch.no_grad():
            x = decode(u)
        flat = x.flatten(1)
        d = estimator.fit([flat] * (1 + environments)).differences(flat)
        return pulled_in_chunks(decode, u, d.unflatten(2, x.shape[1:]))

    def sharper(self, code: DisentangledCode, u: Sequence[Tensor], run: Run) -> Tensor:
        """Stage 3 once more, on the latents found. Where they are right, the log-ratio of a pair is a function of one
        of them, and near a quadratic one if noise is Gaussian: there is less to learn than on the reduced code."""
        with torch.no_grad():
            z = [code.maps.encoder(rows[None])[0] for rows in u]
        spread, at = z[0].std(0), u[0][:POINTS]
        learner = MulticlassRatio() if self.scores is None or self.on == "pictures" else self.scores
        scores = learner.fit([rows / spread for rows in z], run=run)
        d = scores.differences(z[0][:POINTS] / spread)
        return pulled_in_chunks(lambda part: code.maps.encoder(part[None])[0] / spread, at, d)

    def reduced(
        self, code: DisentangledCode, y: list[Tensor], observational: Callable[[], Iterator[Tensor]], run: Run
    ) -> tuple[list[Tensor], int, tuple[float, float]]:
        """Stage 2: the code of each environment in as many numbers as latents; attempts; the share of variance lost,
        and the folding."""
        n, k = code.dims, code.front.rank
        if k == n:
            for net in (code.reducer.encoder, code.reducer.decoder):
                straight(net)
            return [rows[:, :n] for rows in y], 1, (0.0, 1.0)
        with torch.no_grad():
            starts = code.front.starts((part.to(run.device) for part in observational()), n)
        best: tuple[tuple[float, float], dict[str, Tensor]] | None = None
        for attempt in range(1, 2 + self.retries):
            lost, fold = self.reduction(code, y, starts, run, attempt)
            if best is None or (fold > FOLDED, lost) < (best[0][1] > FOLDED, best[0][0]):
                best = (lost, fold), {name: tensor.clone() for name, tensor in code.reducer.state_dict().items()}
            if best[0][1] <= FOLDED and best[0][0] <= REDUCTION_LOST:
                break
        assert best is not None
        code.reducer.load_state_dict(best[1])
        code.reducer.requires_grad_(False)
        return [code.reducer.encoder(rows[None])[0] for rows in y], attempt, best[0]

    def reduction(
        self, code: DisentangledCode, y: list[Tensor], starts: list[Tensor], run: Run, attempt: int
    ) -> tuple[float, float]:
        """One attempt: from an embedding of observational codes, then as an autoencoder of all environments."""
        rng = Generator().manual_seed(mix(run.seed, "landmarks", attempt))
        torch.manual_seed(mix(run.seed, "reduction", attempt))
        fresh = self.reducer(code.front.dims, code.dims).to(run.device)
        code.reducer.load_state_dict(fresh.state_dict())
        code.reducer.requires_grad_(True)
        every = torch.cat(y)
        some = torch.randperm(len(y[0]), generator=rng)
        marks = y[0].cpu()[some]
        known = embedding(marks, code.dims, [start.cpu()[some] for start in starts])
        at, points = known.at.to(every), marks[known.points].to(every)

        def recipe(steps: float) -> Recipe:
            return replace(run.recipe, steps=max(1, round(steps * run.recipe.steps)), every=min(100, run.recipe.every))

        def embed(nets: Any, batch: Points, t: int) -> Iterator[Turn]:
            own = batch.d[0]
            there = (nets.encoder(batch.u[None])[0] - own).square().sum(1).mean()
            back = (nets.decoder(own[None])[0] - batch.u).square().sum(1).mean()
            yield Turn(ALL, Terms(embedding=there, reconstruction=back))

        def rebuild(nets: Any, batch: Points, t: int) -> Iterator[Turn]:
            back = nets.decoder(nets.encoder(batch.u[None]))[0]
            yield Turn(ALL, Terms(reconstruction=100 * (back - batch.u).square().sum(1).mean()))

        for name, turns, view, steps in (
            ("embedding", embed, Rows.of(points, at[:, None]), self.embedding_steps),
            ("reduction", rebuild, Rows.of(every, every.new_zeros(len(every), 1, 1)), self.reduction_steps),
        ):
            inner = replace(run, recipe=recipe(steps))
            descend(turns, code.reducer, view, inner, stage=f"{name}-{attempt}")
            run.stopped_at = inner.stopped_at
        with torch.no_grad():
            lost = (code.reducer.decoder(code.reducer.encoder(every[None]))[0] - every).square().sum()
            fold = folding(marks[:LANDMARKS].double(), code.reducer.encoder(marks[None, :LANDMARKS].to(every))[0].cpu())
        return float(lost / (every - every.mean(0)).square().sum()), fold

    def disentangled(
        self, code: DisentangledCode, u: Tensor, d: Tensor, run: Run, stage: str = "train"
    ) -> tuple[float, float]:
        """Stage 4: the maps of the best restart, by its loss on all points, which is returned."""
        torch.manual_seed(mix(run.seed, "restarts"))
        nets = self.maps(self.restarts, code.dims).to(run.device)
        self.orient(nets, u, d, Generator().manual_seed(mix(run.seed, "orientations")))
        u, d = u.detach(), d.detach()
        descend(self.turns, nets, Rows.of(u, d.transpose(0, 1).contiguous()), run, stage=stage)
        with torch.no_grad():
            change, lost = self.losses(nets, Points(u, d))
            r = int((change + self.weight * lost).argmin())
            for name in ("encoder", "decoder"):
                getattr(code.maps, name).load_state_dict(nets.get_submodule(name).member(r))  # type: ignore[operator]
            if self.linear:
                inverse = torch.linalg.inv(code.maps.decoder.slope)
                set_linear(code.maps.encoder, inverse, -code.maps.decoder.shift @ inverse)
        return float(change[r]), float(lost[r])

    def orient(self, nets: Any, u: Tensor, d: Tensor, rng: Generator) -> None:
        """Begin where the mean direction of each difference is an axis; all restarts but the first at turned axes."""
        n = u.shape[1]
        C = torch.cov(u.T).double().view(n, n)
        R = torch.einsum("pbi,pbj->pij", d.double(), d.double())
        W = torch.linalg.eigh(R).eigenvectors[..., -1]  # rows are the gradients of the latents
        if len(W) < n:
            rest = torch.linalg.svd(W, full_matrices=True).Vh[len(W) :]
            W = torch.cat([W, rest])
        if float(torch.linalg.cond(W)) > 1e4:
            W = torch.eye(n).to(W)
        slopes = []
        for r in range(self.restarts):
            V = W if r == 0 else W + (0.3 * r / self.restarts) * torch.randn(n, n, generator=rng).to(W)
            V = V / torch.einsum("ki,ij,kj->k", V, C, V).sqrt()[:, None]  # of unit variance
            slopes.append(V)
        H = torch.stack(slopes)
        B = torch.linalg.inv(H)
        if self.objective == "axes":
            on = torch.einsum("rik,pbi->rpbk", B, d.double()).abs().mean(2).diagonal(dim1=1, dim2=2)
            size = torch.ones(len(B), n).to(B)
            size[:, : on.shape[1]] = on
            H, B = H * size[..., None], B / size[:, None]
        mean = u.mean(0).double()
        set_linear(nets.encoder, H.mT.to(u), -(H @ mean)[:, None].to(u))
        set_linear(nets.decoder, B.mT.to(u), mean.to(u))

    def finish(self, code: DisentangledCode, u: list[Tensor], d: Tensor, pairs: Sequence[Pair]) -> None:
        """Stage 5: units, the graph and the mechanisms."""
        with torch.no_grad():
            z = [torch.cat([code.maps.encoder(part[None])[0] for part in rows.split(4096)]) for rows in u]
            code.mean, code.scale = z[0].mean(0), z[0].std(0).clamp_min(1e-12)
            own = z[0][: d.shape[1]]
            z = [((rows - code.mean) / code.scale).cpu() for rows in z]
            first = [Pair(0, p.second if not p.first else p.first, None) for p in pairs]
            _, both = code.maps.decoder.pull(own[None], torch.cat([between(d, list(pairs)), between(d, first)])[None])
            D, D0 = mean_changes(both)[0].cpu().chunk(2)
        code.changes[:, : len(pairs)] = torch.stack([D, D0]) * code.scale.cpu()
        code.known = torch.tensor([k < len(pairs) and pairs[k].first > 0 for k in range(code.dims)])
        code.partners[: len(pairs)] = torch.tensor([p[:2] for p in pairs])
        environments = [p[:2] for p in pairs]
        code.confidence = self.graph_of(z, environments, code.changes[0, : len(pairs)], code.changes[1]).float()
        code.coefficients = graphs.mechanisms(z, environments, code.confidence).coefficients

    def graph_of(self, z: Sequence[Tensor], pairs: Sequence[tuple[int, int]], D: Tensor, D0: Tensor) -> Tensor:
        """Confidences, from true differences if they were told, else from the codes of all environments."""
        if self.scores is not None and self.scores.truth and all(a for a, _ in pairs):
            return graphs.confidence_of_differences(D0[: len(D)], D, torch.ones(D.shape[1]))
        return graphs.confidence_of_samples(graphs.causes_from_samples(z, pairs, self.level))


def encoded(front: Code, chunks: Iterator[Tensor], device: str) -> Tensor:
    with torch.no_grad():
        return torch.cat([front.encode(part.to(device)) for chunk in chunks for part in chunk.split(256)])


def straight(net: Any) -> None:
    """The identity on the leading numbers."""
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
        net.slope.copy_(torch.eye(*net.slope.shape[1:]))
    net.requires_grad_(False)


def again(net: nn.Module) -> None:
    """Fresh weights, as the layers draw them."""
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            module.reset_parameters()
