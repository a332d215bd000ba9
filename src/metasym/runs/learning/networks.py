"""The networks of ``metasym learn``: a plain one from the choices, and the same with a U to learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from metasym.errors import asked
from metasym.models.start import started
from metasym.runs.files.learn_options import Choices
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.symmetry.reparam import reparameterize
from metasym.tasks.sampling import mix, seeded
from metasym.types import MetasymError

_START, _MODEL, _U = 31, 32, 33
LARGEST_DENSE = 16384
"""Entries of a weight whose U is stored whole, where only one layer has one."""
LARGEST_SQUARE = 400
"""Entries of a weight that gets as many filter entries: any symmetry of it then fits."""
LARGEST_IDENTITY = 1024
"""Entries of a weight whose U starts as an identity, in a network that adapts by steps."""
_FILTERS = 64
_ENTRIES = 2**19
_STD = 0.01


def plain_network(choices: Choices, function: Callable[[], nn.Module] | None = None) -> nn.Module:
    """The network without symmetries, at its start; ``function`` makes a user's own."""
    layout = choices.layout
    if ":" in choices.model:
        if function is None:
            from metasym.runs.named_functions import named_function  # most networks are ours

            function = named_function(choices.model, "model")
        return _own(choices, function)
    g = seeded(int(mix(choices.seed, _START)))
    outputs = layout.output_shape[0] if layout.output_shape else 0
    size, bias, k = layout.input_shape[0], choices.bias, choices.kernel_size
    if choices.model == "fc":
        return started(nn.Linear, size, outputs, generator=g, bias=bias)
    if choices.model == "mlp":
        return nn.Sequential(
            started(nn.Linear, size, choices.hidden, generator=g, bias=bias),
            nn.ReLU(),
            started(nn.Linear, choices.hidden, outputs, generator=g, bias=bias),
        )
    flat = choices.model == "conv1d"
    conv: type[nn.Module] = nn.Conv1d if flat else nn.Conv2d
    if choices.single_layer:
        return started(conv, size, outputs, k, generator=g, bias=bias, padding=choices.padding)
    return nn.Sequential(
        started(conv, size, choices.hidden, k, generator=g, bias=bias, padding=k // 2, stride=choices.stride),
        nn.ReLU(),
        started(
            conv,
            choices.hidden,
            choices.hidden,
            k,
            generator=g,
            bias=bias,
            padding=k // 2,
            stride=choices.stride,
        ),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1) if flat else nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        started(nn.Linear, choices.hidden, outputs, generator=g, bias=bias),
    )


def symmetric_network(
    choices: Choices,
    filter_sizes: Mapping[str, int] | None = None,
    function: Callable[[], nn.Module] | None = None,
) -> nn.Module:
    """The network with a learnable U in every linear and convolution layer, at its start.

    ``filter_sizes`` gives those of dense layers by name, where an earlier stage has found them.
    """
    model = plain_network(choices, function)
    g = seeded(int(mix(choices.seed, _U)))

    def make(name: str, module: nn.Module) -> Symmetry:
        weight = module.weight
        assert isinstance(weight, Tensor)
        if not stored_dense(choices, weight.numel()):
            return KroneckerSymmetry(weight.shape, dtype=weight.dtype)
        size = (filter_sizes or {}).get(name) or filter_entries(choices, weight.numel())
        starts_small = choices.find_steps > 0 or choices.filter_size is not None or size < weight.numel()
        return DenseSymmetry(
            weight.shape, size if starts_small else None, std=_STD, generator=g, dtype=weight.dtype
        )

    zero_start = choices.find_steps > 0  # the tasks' filters are about 0 on average, as far as anyone knows
    return reparameterize(model, make, filter_std=0.0 if zero_start else None)


def stored_dense(choices: Choices, weight_entries: int) -> bool:
    """Whether the U of a weight is stored whole."""
    if choices.symmetry is not None:
        return choices.symmetry == "dense"
    return weight_entries <= (LARGEST_DENSE if choices.solver == "ridge" else LARGEST_IDENTITY)


def filter_entries(choices: Choices, weight_entries: int) -> int:
    """The filter entries of a dense U: as many as the weight has, or fewer where U would be very large."""
    if choices.filter_size is not None:
        return choices.filter_size
    if choices.solver != "ridge" or weight_entries <= LARGEST_SQUARE:
        return weight_entries
    return min(weight_entries, max(_FILTERS, _ENTRIES // weight_entries))


def _own(choices: Choices, function: Callable[[], nn.Module]) -> nn.Module:
    """What a user's function returns. It draws from torch's global generator, seeded here and left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(mix(choices.seed, _MODEL)))
        try:
            model = function()
        except Exception as error:
            raise MetasymError(
                f"{asked('model', choices.model)}: expected a function without arguments that returns an nn.Module, "
                f"found {type(error).__name__}: {error}",
                about="model",
                found=type(error).__name__,
            ) from None
    if not isinstance(model, nn.Module):
        raise MetasymError(
            f"{asked('model', choices.model)}: expected an nn.Module, found {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    return model
