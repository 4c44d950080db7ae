"""The gradient by the initial wave and by the speeds of waves with a restoring force, on 320 x 320 points
in FP64, after 400 time steps, in PyTorch. A state is 2 levels of 0.8 MB."""

import torch
from torch.utils.checkpoint import checkpoint

import gpuzip.torch

POINTS, STEPS, SEGMENT, SNAPSHOTS, BUDGET = 320, 400, 20, 20, "200M"
SMALL = {"POINTS": 24, "STEPS": 40, "SEGMENT": 8, "SNAPSHOTS": 4, "BUDGET": "1M"}
VERSIONS = f"PyTorch {torch.__version__}"


def step(state, t, speed):
    u, before = state
    curvature = torch.roll(u, 1, 0) + torch.roll(u, -1, 0) + torch.roll(u, 1, 1) + torch.roll(u, -1, 1) - 4 * u
    return 2 * u - before + speed * curvature - 1e-3 * torch.sin(u), u


def start():
    x = torch.linspace(-3, 3, POINTS, dtype=torch.float64)
    u = torch.exp(-4 * (x[:, None] ** 2 + x**2))
    return u.requires_grad_(), torch.full((POINTS, POINTS), 0.2, dtype=torch.float64).requires_grad_()


def steps(begin, end, u, before, speed):
    for t in range(begin, end):
        u, before = step((u, before), t, speed)
    return u, before


def gradient(last, u, speed):
    torch.sum(last**2).backward()
    return torch.stack([u.grad, speed.grad]).numpy()


def baseline():
    """Runs a short loop and its gradient."""
    u, speed = start()
    gradient(steps(0, 2, u, u, speed)[0], u, speed)


def every_state():
    u, speed = start()
    v, before = u, u
    for t in range(STEPS):
        v, before = step((v, before), t, speed)
    return gradient(v, u, speed)


def segments():
    u, speed = start()
    v, before = u, u
    for begin in range(0, STEPS, SEGMENT):
        v, before = checkpoint(steps, begin, begin + SEGMENT, v, before, speed, use_reentrant=False)
    return gradient(v, u, speed)


def snapshots():
    u, speed = start()
    keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": SNAPSHOTS}
    v, _ = gpuzip.torch.scan(step, (u, u), STEPS, speed, **keys)
    return gradient(v, u, speed)


def budget():
    u, speed = start()
    v, _ = gpuzip.torch.scan(step, (u, u), STEPS, speed, host_budget=BUDGET)
    return gradient(v, u, speed)


WAYS = {
    "every state": every_state,
    "torch.utils.checkpoint, 20 segments of 20 steps": segments,
    "gpuzip, 20 snapshots": snapshots,
    'gpuzip, host_budget="200M"': budget,
}
DIGITS = 12
