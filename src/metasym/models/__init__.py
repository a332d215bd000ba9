"""The paper's networks as plain modules: single layers, the conv nets of few-shot learning, the D_8 net."""

from metasym.models.conv_blocks import Block, ConvNet, convolution_net
from metasym.models.d8 import d8_net
from metasym.models.image_networks import NETWORKS, SIZES, few_shot_network
from metasym.models.single_layer import (
    Convolution1d,
    convolution1d,
    convolution2d,
    fully_connected,
    locally_connected,
    with_true_space,
)

__all__ = [
    "NETWORKS",
    "SIZES",
    "Block",
    "ConvNet",
    "Convolution1d",
    "convolution1d",
    "convolution2d",
    "convolution_net",
    "d8_net",
    "few_shot_network",
    "fully_connected",
    "locally_connected",
    "with_true_space",
]
