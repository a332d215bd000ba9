"""One symmetry for weight and bias together: the bias as one more column of the weight."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from metasym.symmetry.matrices import Symmetry


class JointWeight(nn.Module):
    """The weight's part of a symmetry that makes weight and bias together from one filter.

    The paper's appended input of 1: the symmetry's weight is ``[out, inputs + 1]`` and its last column
    is the bias.
    """

    def __init__(self, symmetry: Symmetry, weight_shape: torch.Size, bias: Tensor) -> None:
        super().__init__()
        self.symmetry = symmetry
        self.weight_shape = weight_shape
        self._start = bias.detach().clone()
        self._list: tuple[
            parametrize.ParametrizationList, ...
        ] = ()  # a tuple: not a submodule of its own part

    def forward(self, v: Tensor) -> Tensor:
        """``v [*filter_shape] -> W [*weight_shape]``."""
        joint: Tensor = self.symmetry(v)
        return joint[:, :-1].reshape(self.weight_shape)

    def bias(self, v: Tensor) -> Tensor:
        """``v [*filter_shape] -> bias [out]``."""
        joint: Tensor = self.symmetry(v)
        return joint[:, -1]

    def right_inverse(self, W: Tensor) -> Tensor:
        """Least squares on the weight and the bias that the layer has now."""
        bias = self.bias(self._list[0].original).detach() if self._list else self._start
        joint = torch.cat([W.reshape(W.shape[0], -1), bias.unsqueeze(1).to(W)], dim=1)
        return self.symmetry.right_inverse(joint)


class JointBias(nn.Module):
    """The bias's part: reads the filter that the weight of the same layer owns."""

    def __init__(self, weight: parametrize.ParametrizationList) -> None:
        super().__init__()
        self._weight = (weight,)  # in a tuple: a second registration would list its parameters twice

    def forward(self, _: Tensor) -> Tensor:
        """``[0] -> bias [out]``."""
        (weight,) = self._weight
        joint = weight[0]
        assert isinstance(joint, JointWeight)
        return joint.bias(weight.original)
