"""The networks of the paper's augmentation experiments (its appendix), for Omniglot and MiniImagenet.

What the appendix leaves open or says twice, and what we took:

- *Three or four convolutions.* MAML "used exactly the same convolutional architecture (same number of layers, ...)
  as prior work", and both works cited have four blocks; the paragraph on MAML (Big) speaks of "each of the 3
  convolution layers". We take four: the first sentence is about the networks that all methods share.
- *Pooling.* Matching networks pool by 2 x 2 after every block; MAML's Omniglot net strides its convolutions
  instead, its MiniImagenet net pools. We pool everywhere: one family for both data sets, and the head's 64
  features are the same either way.
- *MiniImagenet 5-shot.* "128 channels, and kernels of 5 in the first 3 convolution layers": the fourth has 128
  channels and a 3 x 3 kernel. The 1 x 1 convolution to 64 channels is followed by norm and ReLU as the others are
  (without them it could be merged with the head) and does not pool.
- *MAML (Big).* The wider layers are all four; the additional linear layer has a ReLU.
- *MAML+D8* at MiniImagenet 5-shot is not among the methods whose networks were enlarged: it has 32 channels.

Omniglot, 28 x 28 x 1: four blocks of 64 channels, 64 features. MiniImagenet, 84 x 84 x 3: four blocks of 32
channels, 800 features.
"""

from __future__ import annotations

import torch

from metasym.argument_types import checked
from metasym.models.conv_blocks import Block, ConvNet, convolution_net
from metasym.models.d8 import ORDER, d8_net
from metasym.types import MetasymError

SIZES: dict[str, tuple[int, int, int]] = {"omniglot": (1, 28, 28), "miniimagenet": (3, 84, 84)}
"""Channels, height and width of the images of each data set."""

NETWORKS = ("conv4", "conv4-big", "conv4-embedding", "conv4-d8")

_DEPTH = 4


@checked
def few_shot_network(
    data: str,
    shots: int,
    ways: int,
    network: str,
    generator: torch.Generator | None = None,
    *,
    fields: int | None = None,
) -> ConvNet:
    """Return the network of one column of Table 3: ``[examples, c, s, s] -> [examples, ways]`` (or embeddings).

    Args:
        data: ``"omniglot"`` or ``"miniimagenet"``.
        shots: Support images of each class.
        ways: Number of classes.
        network: ``"conv4"`` (MAML, ANIL and, reparameterized, MSR), ``"conv4-big"`` (MAML (Big)),
            ``"conv4-embedding"`` (ProtoNets) or ``"conv4-d8"`` (MAML+D8).
        generator: Source of the starting values.
        fields: Regular fields of 16 channels in each layer of ``"conv4-d8"``. Default: as many channels as MAML's.
    """
    if data not in SIZES:
        raise MetasymError(
            f"expected data to be one of {', '.join(SIZES)}, found {data!r}", about="data", found=data
        )
    if network not in NETWORKS:
        raise MetasymError(
            f"expected network to be one of {', '.join(NETWORKS)}, found {network!r}",
            about="network",
            found=network,
        )
    if fields is not None and network != "conv4-d8":
        raise MetasymError(
            f"expected fields with conv4-d8 only, found {network}", about="fields", found=network
        )
    channels = 64 if data == "omniglot" else 32
    if network == "conv4-d8":
        width = ORDER * fields if fields else channels
        return d8_net(SIZES[data], width, ways, depth=_DEPTH, generator=generator)
    blocks = [Block(channels)] * _DEPTH
    hidden: int | None = None
    large = data == "miniimagenet" and shots >= 5
    if network == "conv4-embedding":
        if large:
            blocks = [Block(128)] * _DEPTH
        return convolution_net(SIZES[data], blocks, None, generator=generator)
    if large:
        blocks = [Block(128, 5)] * 3 + [Block(128), Block(64, 1, pool=False)]
    if network == "conv4-big":
        if data == "omniglot":
            blocks = [Block(150)] * _DEPTH
        else:
            blocks = blocks if large else [Block(64)] * _DEPTH
            hidden = 3840 if large else 1920
    return convolution_net(SIZES[data], blocks, ways, hidden=hidden, generator=generator)
