"""Training steps per second of a beta-VAE (Burgess et al.'s network, 64x64x1, batch 64): ours, a plain torch loop, and
pythae's trainer, side by side in one run.

    python benchmarks/training_speed.py --pythae path/to/its/venv/bin/python --rounds 5

pythae is measured if it is installed in an environment of its own (the same torch version, then `pip install pythae`).
Every measurement is a process of its own with its threads pinned; the contestants take turns within each round, so
that a busy machine slows all of them alike. Reported: medians over rounds with the range, ratios within rounds, and
peak memory. Run with --as NAME, it is one contestant.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS, WARM, BATCH = 120, 20, 64


def rate(stamps: list[float]) -> float:
    """Steps a second after the warm-up, from the moments at which steps begin."""
    return (len(stamps) - 1 - WARM) / (stamps[-1] - stamps[WARM])


def ours(images, precision: str = "float32", channels_last: bool = True) -> list[float]:
    """`fit` as a user calls it, curve and all."""
    from dataclasses import replace

    from whence import BetaVAE, Recipe, Singles, fit
    from whence.nets import Burgess

    stamps: list[float] = []
    view = Singles.of(images)

    def observe(ticket, rng):
        stamps.append(time.perf_counter())
        return view.observe(ticket, rng)

    recipe = Recipe(steps=STEPS, batch=BATCH, precision=precision, channels_last=channels_last)
    fit(BetaVAE(net=Burgess()), replace(view, observe=observe), recipe=recipe)
    return stamps


def plain(images, fused: bool = False) -> list[float]:
    """The loop a person writes: default Adam, no curve, no checks."""
    import torch
    from torch.nn import functional as F

    from whence.nets import Burgess

    encoder, decoder = Burgess().encoder((1, 64, 64), 20), Burgess().decoder(10, (1, 64, 64))
    data = torch.from_numpy(images).float() / 255
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-4, fused=fused or None)
    stamps = []
    for _ in range(STEPS):
        stamps.append(time.perf_counter())
        x = data[torch.randint(len(data), (BATCH,))]
        mean, log_var = encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        nll = F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum") / BATCH
        kl = 0.5 * (mean**2 + log_var.exp() - 1 - log_var).sum() / BATCH
        optimiser.zero_grad()
        (nll + 4 * kl).backward()
        optimiser.step()
    return stamps


def pythae(images) -> list[float]:
    """pythae's BetaVAE and BaseTrainer on the same layers and the same images."""
    import numpy as np
    import torch
    from pythae.data.datasets import BaseDataset
    from pythae.models import BetaVAE, BetaVAEConfig
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder
    from pythae.trainers import BaseTrainer, BaseTrainerConfig
    from pythae.trainers.training_callbacks import TrainingCallback
    from torch import nn

    class Encoder(BaseEncoder):
        def __init__(self):
            super().__init__()
            layers = [m for c in (1, 32, 32, 32) for m in (nn.Conv2d(c, 32, 4, 2, 1), nn.ReLU())]
            full = [nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
            self.body = nn.Sequential(*layers, nn.Flatten(), *full)
            self.mean, self.log_var = nn.Linear(256, 10), nn.Linear(256, 10)

        def forward(self, x):
            h = self.body(x)
            return ModelOutput(embedding=self.mean(h), log_covariance=self.log_var(h))

    class Decoder(BaseDecoder):
        def __init__(self):
            super().__init__()
            full = [nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU()]
            layers = [m for _ in range(3) for m in (nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU())]
            last = [nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Sigmoid()]
            self.body = nn.Sequential(*full, nn.Unflatten(1, (32, 4, 4)), *layers, *last)

        def forward(self, z):
            return ModelOutput(reconstruction=self.body(z))

    stamps: list[float] = []

    class Stamp(TrainingCallback):
        def on_train_step_end(self, *args, **kwargs):
            stamps.append(time.perf_counter())

    data = torch.from_numpy(np.resize(images, (STEPS * BATCH, *images.shape[1:]))).float() / 255
    config = BetaVAEConfig(input_dim=(1, 64, 64), latent_dim=10, beta=4.0, reconstruction_loss="bce")
    with tempfile.TemporaryDirectory() as folder:
        trainer = BaseTrainer(
            BetaVAE(config, encoder=Encoder(), decoder=Decoder()),
            train_dataset=BaseDataset(data, torch.zeros(len(data))),
            training_config=BaseTrainerConfig(
                output_dir=folder,
                num_epochs=1,
                per_device_train_batch_size=BATCH,
                learning_rate=1e-4,
                optimizer_cls="Adam",
                no_cuda=True,
            ),
            callbacks=[Stamp()],
        )
        trainer.train()
    return stamps


CONTESTANTS = {
    "whence float32": lambda images: ours(images),
    "whence float32, contiguous": lambda images: ours(images, channels_last=False),
    "whence bfloat16": lambda images: ours(images, "bfloat16"),
    "plain torch loop": lambda images: plain(images),
    "plain torch loop, fused Adam": lambda images: plain(images, fused=True),
    "pythae": pythae,
}


def bounds(images, threads: int, most: int = 8) -> list[str]:
    """Where the time of our float32 training goes: the operations that take most of it, as shares of all of it."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(threads)
    ours(images)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        ours(images)
    spent = {event.key: event.self_cpu_time_total for event in seen.key_averages()}
    whole = sum(spent.values())
    return [f"{name} {spent[name] / whole:.0%}" for name in sorted(spent, key=spent.__getitem__, reverse=True)[:most]]


def contestant(name: str, path: str, threads: int) -> None:
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    stamps = CONTESTANTS[name](np.load(path))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": rate(stamps), "MB": memory, "torch": torch.__version__}), flush=True)


def measure(python: str, name: str, path: str, threads: int) -> dict:
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    words = [python, __file__, "--as", name, "--images", path, "--threads", str(threads)]
    out = subprocess.run(words, env=env, capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(f"{name} failed:\n{out.stderr[-2000:]}")
    return json.loads(out.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythae", help="the python of an environment that has pythae")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    parser.add_argument("--as", dest="name", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--images", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.name:
        contestant(given.name, given.images, given.threads[0])
        return
    import numpy as np
    import torch

    from whence import Sprites
    from whence.runs import versions
    from whence.studies.engine import machine

    names = [name for name in CONTESTANTS if name != "pythae" or given.pythae]
    world = Sprites()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/images.npy"
        x = world.observe(world.draw(4096, rng=torch.Generator().manual_seed(0)))
        np.save(path, (x * 255).to(torch.uint8).numpy())
        found: dict[tuple[int, str], list[dict]] = {}
        for number in range(given.rounds):
            for threads in given.threads:
                for name in names:
                    python = given.pythae if name == "pythae" else sys.executable
                    found.setdefault((threads, name), []).append(measure(python, name, path, threads))
                rates = ", ".join(f"{name} {found[threads, name][-1]['rate']:.1f}" for name in names)
                print(f"round {number + 1}/{given.rounds}, {threads} thread(s): {rates}", flush=True)
        shares = bounds(np.load(path), 1)
    lines = [
        "# Training speed",
        "",
        "Steps per second of a β-VAE (Burgess network, 64×64×1, batch 64): median (range).",
    ]
    for threads in given.threads:
        head = ["", f"**{threads} thread{'s' * (threads > 1)}**", ""]
        lines += [*head, "| | steps/s | × pythae | × plain loop | peak MB |", "|---|---|---|---|---|"]
        for name in names:
            mine = found[threads, name]
            ratios = [ratio(mine, found.get((threads, other))) for other in ("pythae", "plain torch loop")]
            cells = [name, spread([m["rate"] for m in mine], 1), *ratios, f"{max(m['MB'] for m in mine):.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    about = ", ".join(f"{k} {v}" for k, v in versions().items())
    if given.pythae:
        code = "from importlib.metadata import version as v; print('pythae', v('pythae'), 'torch', v('torch'))"
        out = subprocess.run([given.pythae, "-c", code], capture_output=True, text=True)
        about += f"; its own environment: {out.stdout.strip()}"
    lines += [
        "",
        "Ratios are medians of ratios within rounds. pythae's trainer has its default Adam and data loader.",
        "",
        "- command: `python benchmarks/training_speed.py --pythae <its python>"
        f" --rounds {given.rounds} --threads {' '.join(map(str, given.threads))}`",
        f"- machine: {machine('cpu').partition(',')[0]}, {os.cpu_count()} cores, {platform.system()}; "
        f"load when started {os.getloadavg()[0]:.1f}",
        f"- versions: {about}",
        f"- what bounds float32 on one thread (shares of the time, by PyTorch's profiler): {', '.join(shares)}",
        f"- steps: {STEPS}, of which {WARM} are warm-up; {given.rounds} rounds; date {time.strftime('%Y-%m-%d')}",
    ]
    given.out.write_text("\n".join(lines) + "\n")
    print(given.out.read_text())


def spread(numbers: list[float], digits: int) -> str:
    return f"{statistics.median(numbers):.{digits}f} ({min(numbers):.{digits}f}–{max(numbers):.{digits}f})"


def ratio(mine: list[dict], other: list[dict] | None) -> str:
    if other is None:
        return "–"
    return f"{statistics.median(a['rate'] / b['rate'] for a, b in zip(mine, other, strict=True)):.2f}"


if __name__ == "__main__":
    main()
