"""Probe: encodes once and serves every metric. It meets the truth; learners do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence.descend import mix
from whence.metrics.arrays import Array, Codes, Unmeasurable, learned
from whence.metrics.information import Information, mutual_information
from whence.metrics.sharing import Sharing, pool_sharing
from whence.representation import Decodes, HasPosterior, Representation
from whence.worlds import World


class Posterior(NamedTuple):
    """A Gaussian for each observation and code, (N, D) each."""

    mean: Array
    scale: Array


class Probe:
    """Codes of a representation on a world, drawn and encoded once for all metrics."""

    def __init__(
        self,
        representation: Representation,
        world: World,
        *,
        seed: int = 0,
        samples: int = 10_000,
        shuffled: bool = False,
    ) -> None:
        self.representation, self.world, self.seed, self.samples = representation, world, seed, samples
        self.shuffled = shuffled  #: codes are dealt to other observations: what a metric then gives is chance
        self.origin: tuple[Probe, Array | None] | None = None  #: whose codes these are, and which of its rows
        self.made: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What several metrics need, made by the first that asks."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def like(self, pool: Codes, shuffled: bool = False, rows: Array | None = None) -> Probe:
        """A probe of the same representation with another pool, whose codes may be some rows of this one's."""
        other = Probe(self.representation, self.world, seed=self.seed, samples=len(pool.z), shuffled=shuffled)
        other.__dict__["pool"] = pool
        other.origin = self, rows
        return other

    def rng(self, what: str) -> np.random.Generator:
        """Random numbers for one purpose, the same in every call."""
        return np.random.default_rng(mix(self.seed, "metric", what))

    def generator(self, what: str) -> Generator:
        return Generator().manual_seed(mix(self.seed, "metric", what))

    @cached_property
    def chance(self) -> Probe:
        """The same codes on the same observations, dealt at random."""
        z, v = self.pool
        rows = self.rng("deal").permutation(len(z))
        return self.like(Codes(z[rows], v), shuffled=True, rows=rows)

    @cached_property
    def truth(self) -> Probe:
        """The factors themselves as codes: what a metric gives at the most."""
        return self.like(Codes(self.pool.v.astype(np.float64), self.pool.v))

    def redrawn(self, b: int) -> Probe:
        """The same with rows drawn again with replacement; a row to learn from is never one to test on."""
        z, v = self.pool
        n, rng = learned(len(z)), self.rng(f"redrawn {b}")
        rows = np.concatenate([rng.integers(0, n, n), rng.integers(n, len(z), len(z) - n)])
        return self.like(Codes(z[rows], v[rows]), self.shuffled, rows)

    def renewed(self, b: int) -> Probe:
        """The same representation on new observations."""
        return Probe(self.representation, self.world, seed=mix(self.seed, "renewed", str(b)), samples=self.samples)

    @property
    def repeats(self) -> float:
        """How often a row was drawn, on average over rows: 1, or about 2 if rows were drawn again."""
        if self.origin is None or self.origin[1] is None:
            return 1.0
        count = np.unique(self.origin[1], return_counts=True)[1]
        return float(np.square(count).sum() / count.sum())

    @cached_property
    def pool(self) -> Codes:
        """`samples` independent observations."""
        v, observations = self.observe()
        return Codes(np.concatenate([self.encode(x) for x in observations]), self.world.labels(v).numpy())

    def observe(self) -> tuple[Tensor, Iterator[Tensor]]:
        """The factors of the pool and its observations, in parts; the same in every call."""
        rng = self.generator("pool")
        v = self.world.draw(self.samples, rng=rng)
        return v, (self.world.observe(part, rng) for part in v.split(1024))

    @cached_property
    def posterior(self) -> Posterior:
        """q(z|x) of the pool's observations, row by row."""
        if self.origin is not None and self.origin[1] is not None:
            probe, rows = self.origin
            return Posterior(*(a[rows] for a in probe.posterior))
        if self.origin is not None or not isinstance(self.representation, HasPosterior):
            raise Unmeasurable("These codes have no q(z|x): they were given, not encoded.")
        device = next(iter(self.representation.parameters())).device
        with torch.no_grad():
            q = [self.representation.posterior(x.to(device)) for x in self.observe()[1]]
        return Posterior(*(torch.cat(part).cpu().numpy() for part in ([n.mean for n in q], [n.stddev for n in q])))

    def information(self, *, bins: int = 20, study: bool = False, unbiased: bool = False) -> Information:
        """What `mutual_information` finds in the pool."""
        return self.once(
            ("information", bins, study, unbiased),
            lambda: mutual_information(*self.pool, bins=bins, study=study, unbiased=unbiased),
        )

    def encode(self, x: Tensor) -> Array:
        return self.representation.encode(x).numpy()

    def sharing(self, rng: np.random.Generator) -> Sharing:
        """Groups of codes that share a factor: from the pool."""
        return pool_sharing(*self.pool, rng)

    def fresh(self, what: str) -> Sharing:
        """Groups of codes that share a factor: newly drawn, observed and encoded. Exact, and slow."""
        rng, deal = self.generator(what), self.rng(what)

        def draw(k: int, groups: int, size: int) -> Array:
            shared = self.world.factors[k].draw(groups, rng).repeat_interleave(size)
            v = self.world.draw(groups * size, rng=rng, do={k: shared})
            z = np.concatenate([self.encode(self.world.observe(part, rng)) for part in v.split(1024)])
            return (z[deal.permutation(len(z))] if self.shuffled else z).reshape(groups, size, -1)

        return draw

    def reconstructions(self, n: int) -> tuple[Tensor, Tensor] | None:
        """n observations and what becomes of them by encoding and decoding; None if nothing decodes."""
        if not isinstance(self.representation, Decodes):
            return None
        rng = self.generator("reconstruct")
        x = self.world.observe(self.world.draw(n, rng=rng), rng)
        z = self.representation.encode(x)
        if self.shuffled:
            z = z[torch.from_numpy(self.rng("deal").permutation(n))]
        return x, self.representation.decode(z)

    def kl(self) -> Array | None:
        """Each dimension's divergence from the prior, in nats, over 1,024 observations; None without a posterior."""
        from whence.terms import kl_each

        if not isinstance(self.representation, HasPosterior):
            return None
        rng = self.generator("kl")
        x = self.world.observe(self.world.draw(1024, rng=rng), rng)
        device = next(iter(self.representation.parameters())).device
        with torch.no_grad():
            return kl_each(self.representation.posterior(x.to(device))).cpu().numpy()
