"""Networks that ``torch.compile`` has wrapped: learning takes what is inside.

Steps are computed by ``torch.func`` or by engines that read the layers; compiled code would not be used by them, and
its wrapper would change every parameter's name.
"""

from __future__ import annotations

import warnings

from torch import nn

from metasym.types import MetasymWarning

_INSIDE = "_orig_mod"
_COMPILED_CALL = "_compiled_call_impl"


def uncompiled(model: nn.Module) -> nn.Module:
    """``model`` without the wrappers of ``torch.compile``, anywhere in it; a warning says so where there was one."""
    found = 0
    while isinstance(inside := getattr(model, _INSIDE, None), nn.Module):
        model, found = inside, found + 1
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if isinstance(inside := getattr(child, _INSIDE, None), nn.Module):
                parent._modules[name] = inside
                found += 1
    for module in model.modules():
        if getattr(module, _COMPILED_CALL, None) is not None:  # by module.compile()
            setattr(module, _COMPILED_CALL, None)
            found += 1
    if found:
        warnings.warn(
            "the model was compiled by torch.compile: learning does not use the compiled code but the model inside "
            "it; compile what you deploy, torch.compile(learner.adapt(support))",
            MetasymWarning,
            stacklevel=3,
        )
    return model
