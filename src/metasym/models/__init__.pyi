from .conv_blocks import Block as Block, ConvNet as ConvNet, convolution_net as convolution_net
from .d8 import d8_net as d8_net
from .image_networks import NETWORKS as NETWORKS, SIZES as SIZES, few_shot_network as few_shot_network
from .single_layer import (
    Convolution1d as Convolution1d,
    convolution1d as convolution1d,
    convolution2d as convolution2d,
    fully_connected as fully_connected,
    locally_connected as locally_connected,
    with_true_space as with_true_space,
)
