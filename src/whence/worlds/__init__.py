"""3. Where data come from; the only room that knows the truth. Worlds hand out views."""

from whence.scm import FAMILIES
from whence.worlds.balls import Balls, BallScores
from whence.worlds.celeba import CelebA
from whence.worlds.design import Design
from whence.worlds.dsprites import DSprites
from whence.worlds.entangled import Entangled
from whence.worlds.faces import Faces
from whence.worlds.flow import Flow
from whence.worlds.mixed import Mixed, ScoreDifferences
from whence.worlds.mixing import MIXINGS, LinearMixing, MLPMixing, PolynomialMixing, TanhMixing
from whence.worlds.pendulum import Pendulum
from whence.worlds.shrunk import Shrunk
from whence.worlds.sprites import Sprites
from whence.worlds.unmixed import Unmixed
from whence.worlds.world import Factor, Grid, World

WORLDS: tuple[type[World], ...] = (
    Sprites,
    DSprites,
    Unmixed,
    Entangled,
    Shrunk,
    Mixed,
    Balls,
    Pendulum,
    Flow,
    Faces,
    CelebA,
)

#: What the options of worlds may hold.
WORLD_PARTS: tuple[type, ...] = (*FAMILIES, *MIXINGS, Design, ScoreDifferences, BallScores)
