"""Which kind of network fits the shapes of the data, and its sizes."""

from __future__ import annotations

import math

from metasym.errors import asked
from metasym.runs.files.learn_options import MODELS, Options
from metasym.tasks.task_file import TaskFile
from metasym.types import MetasymError

_LARGEST_FINE = 16
"""Pixels of the side of an image up to which both layers of a conv network look at every pixel."""


class NetworkShapes:
    """The network's kind and sizes, as the data and the user's options say."""

    def __init__(self, file: TaskFile, options: Options) -> None:
        x, y = tuple(file.x.shape[2:]), tuple(file.y.shape[2:])
        self.model = options.model or _model(file)
        self.kernel_size, self.padding, self.single_layer = options.kernel_size or 3, 0, False
        self.stride = 1
        if self.model in ("fc", "mlp"):
            inputs: tuple[int, ...] = (math.prod(x),)
            outputs: tuple[int, ...] = (file.classes or math.prod(y),)
            self.single_layer = self.model == "fc"
        elif self.model in ("conv1d", "conv2d"):
            inputs, outputs = self._convolution(file, x, y, options)
        elif ":" in self.model:
            inputs, outputs = x or (1,), () if file.classes else y or (1,)
        else:
            raise MetasymError(
                f"expected {asked('model')} to be one of {', '.join(MODELS)} or package.module:function, found "
                f"{self.model!r}",
                about="model",
                found=self.model,
            )
        self.inputs, self.outputs = inputs, outputs

    def _convolution(
        self, file: TaskFile, x: tuple[int, ...], y: tuple[int, ...], options: Options
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Images ``[channels, ...]`` in; one layer where the outputs are such images too, or a pooled network."""
        space = 1 if self.model == "conv1d" else 2
        if len(x) not in (space, space + 1):
            raise MetasymError(
                f"expected x [tasks, examples, {'channels, length' if space == 1 else 'channels, height, width'}] or "
                f"without channels for {asked('model', self.model)}, found {list(file.x.shape)}",
                about="x",
                found=tuple(file.x.shape),
            )
        inputs = x if len(x) == space + 1 else (1, *x)
        if file.classes or len(y) not in (space, space + 1):
            self.stride = 1 if max(inputs[1:]) <= _LARGEST_FINE or space == 1 else 2
            return inputs, (file.classes or math.prod(y),)
        outputs = y if len(y) == space + 1 else (1, *y)
        less = {a - b for a, b in zip(inputs[1:], outputs[1:], strict=True)}
        smaller = next(iter(less))
        if len(less) > 1 or smaller < 0:
            raise MetasymError(
                f"expected outputs that are as much smaller than the inputs in every direction as a kernel takes "
                f"away, found {list(inputs)} and {list(outputs)}",
                about="x, y",
                found=(tuple(inputs), tuple(outputs)),
            )
        self.single_layer = True
        if smaller == 0:
            if self.kernel_size % 2 == 0:
                raise MetasymError(
                    f"expected an odd {asked('kernel_size')} for outputs of the inputs' size, found "
                    f"{self.kernel_size}",
                    about="kernel_size",
                    found=self.kernel_size,
                )
            self.padding = self.kernel_size // 2
        elif options.kernel_size not in (None, smaller + 1):
            raise MetasymError(
                f"expected {asked('kernel_size', smaller + 1)} for {list(inputs)} -> {list(outputs)}, "
                f"found {options.kernel_size}",
                about="kernel_size",
                found=options.kernel_size,
            )
        else:
            self.kernel_size = smaller + 1
        return inputs, outputs


def _model(file: TaskFile) -> str:
    dims = file.x.ndim - 2
    if dims <= 1:
        return "mlp" if file.classes else "fc"
    if dims <= 3:
        return "conv2d"
    raise MetasymError(
        f"{file.path}: expected vectors or images, or {asked('model', 'package.module:function')} for others, "
        f"found x {list(file.x.shape)}",
        about=f"{file.path}: x",
        found=tuple(file.x.shape),
    )
