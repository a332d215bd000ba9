"""Deploying a structured layer by ONNX

A layer has learned that its inputs lie on a ring. This example adapts it to a new task, exports it to ONNX and runs
it with onnxruntime, without metasym or torch. A large layer computes with the pattern instead of the dense matrix.

Extras: onnx
"""

# %%
# ## Learn a symmetry
#
# The tasks are circular filters on twelve points, each with its own filter.
import os

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime
import torch

import metasym as ms
from metasym.cli import main

quick = "QUICK" in os.environ
data = ms.tasks.planted("shifts12", tasks=60)
np.savez("tasks.npz", x=data.x, y=data.y)
main(["learn", "tasks.npz", "--out", "ring", "--progress", "silent", "--no-baseline"])

# %%
# ## Adapt and export
#
# A new task has two examples. `metasym export` adapts the model to them, selects the fastest form of the layer, and
# writes one file. It loads the file again and compares the outputs.
new = ms.tasks.planted("shifts12", tasks=1, seed=1)
np.savez("task.npz", x=new.x[0, :2], y=new.y[0, :2])
main(["export", "ring", "--out", "model.onnx", "--support", "task.npz", "--structured"])

# %%
# ## Run it without metasym
#
# The plan above says that the dense layer is fastest for twelve points: it is one small product of matrices.
model = onnx.load("model.onnx")
numbers = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer if tensor.data_type == 1}
print("operations:", ", ".join(node.op_type for node in model.graph.node))
print("stored floats:", numbers)
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
predicted = session.run(None, {session.get_inputs()[0].name: new.x[0, 2:].numpy()})[0]
error = float(np.square(predicted - new.y[0, 2:].numpy()).mean())
print(f"mean squared error on 18 other examples of the task: {error:.2g}")
weight = next(onnx.numpy_helper.to_array(t) for t in model.graph.initializer if list(t.dims) == [12, 12])
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), label="The deployed weight, and its predictions")
largest = abs(weight).max()
left.imshow(weight, cmap="RdBu", vmin=-largest, vmax=largest)
left.set(title="the weight in model.onnx", xlabel="input", ylabel="output")
right.scatter(new.y[0, 2:], predicted, s=8)
right.set(title="18 held-out examples", xlabel="y", ylabel="predicted by onnxruntime")
figure.tight_layout()

# %%
# ## A larger ring
#
# With a thousand points the pattern is faster: five taps instead of a million weights. Here we give the structure as
# integers: equal ones for tied weights, 0 for zero weights. After learning, `ms.structured(model)` reads it from U.
points = 1024
offset = (np.arange(points)[:, None] - np.arange(points)[None, :]) % points
pattern = np.where(offset < 5, offset + 1, 0)
large = torch.nn.Linear(points, points, bias=False)
with torch.no_grad():
    taps = torch.randn(6, generator=torch.Generator().manual_seed(0))
    large.weight.copy_(torch.where(torch.from_numpy(pattern) > 0, taps[torch.from_numpy(pattern)], 0.0))
print(ms.structure_plan(large, pattern, onnx=True))
fast = ms.structured(large, pattern, onnx=True)
x = torch.randn(32, points, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    difference = float((fast(x) - large(x)).abs().max())
count = sum(parameter.numel() for parameter in fast.parameters())
print(f"{count} numbers instead of {large.weight.numel():,}; outputs differ by at most {difference:.1g}")
