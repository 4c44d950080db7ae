"""The gradient by the parameters of a stack of 22 convolutions, activations and poolings, whose results have 4 to
34 MB, for 32 images of 3 x 128 x 128 points, in PyTorch."""

import torch
from torch.utils.checkpoint import checkpoint_sequential

import gpuzip.torch

IMAGES, POINTS, SEGMENTS, FEWER, MEMORY, LESS = 32, 128, 4, 2, "250M", "140M"
SMALL = {"IMAGES": 1, "POINTS": 32, "MEMORY": "500K", "LESS": "350K"}
VERSIONS = f"PyTorch {torch.__version__}"
made = {}


def modules():
    torch.manual_seed(1)
    found, before = [], 3
    for width in (16, 32, 64, 128):
        found += [torch.nn.Conv2d(before, width, 3, padding=1), torch.nn.BatchNorm2d(width, track_running_stats=False)]
        found += [torch.nn.GELU(), torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.Tanh(), torch.nn.MaxPool2d(2)]
        before = width
    return found[:-2]


def start(memory=None):
    """The modules, or gpuzip's stack of them, which measures them once, and images."""
    if memory not in made:
        made[memory] = gpuzip.torch.Layers(*modules(), memory=memory) if memory else torch.nn.Sequential(*modules())
    images = torch.sin(torch.arange(IMAGES * 3 * POINTS**2) * 0.1).reshape(IMAGES, 3, POINTS, POINTS)
    return made[memory], images.requires_grad_()


def gradient(result, images, stack):
    torch.sum(result**2).backward()
    found = torch.cat([x.grad.flatten() for x in (images, *stack.parameters())]).numpy()
    stack.zero_grad(set_to_none=True)
    return found


def baseline():
    """Runs a stack on one small image."""
    stack = torch.nn.Sequential(*modules())
    image = torch.rand(1, 3, 16, 16).requires_grad_()
    gradient(stack(image), image, stack)


def every_result():
    stack, images = start()
    return gradient(stack(images), images, stack)


def segments():
    stack, images = start()
    return gradient(checkpoint_sequential(stack, SEGMENTS, images), images, stack)


def fewer():
    stack, images = start()
    return gradient(checkpoint_sequential(stack, FEWER, images), images, stack)


def memory():
    stack, images = start(MEMORY)
    return gradient(stack(images), images, stack)


def less():
    stack, images = start(LESS)
    return gradient(stack(images), images, stack)


WAYS = {
    "every result": every_result,
    "checkpoint_sequential, 2 segments": fewer,
    "checkpoint_sequential, 4 segments": segments,
    'gpuzip.torch.Layers, memory="250M"': memory,
    'gpuzip.torch.Layers, memory="140M"': less,
}
DIGITS = 6
