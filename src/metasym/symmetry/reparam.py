"""Put symmetries into any model, take them out again, and say which parameter is which.

Built on ``torch.nn.utils.parametrize``: the filter v is the parametrization's ``original``, the
``Symmetry`` is its module. Tied weights stay tied: every place that shares a weight gets the same
symmetry and the same filter.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from metasym.argument_types import check_argument, checked, fits
from metasym.symmetry.compiled_models import uncompiled
from metasym.symmetry.joint_bias import JointBias, JointWeight
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.symmetry.parametrized import (
    Split,
    drop_lists,
    list_of,
    lists_of,
    make_copyable,
    plain_type,
    weight_name,
    weight_site,
    weight_tensors,
)
from metasym.symmetry.selection import (
    Select,
    check_fit,
    has_joint_bias,
    joint_shape,
    say_what_stays,
    select_layers,
    weight_sites,
)
from metasym.types import MetasymError

MakeSymmetry = Callable[[str, nn.Module], Symmetry | None]
KINDS = ("kronecker", "dense")
_ORDER = "_metasym_parameter_order"


def reparameterize(
    model: nn.Module,
    kind: str | MakeSymmetry = "kronecker",
    *,
    select: Select = None,
    filter_size: int | Sequence[int] | None = None,
    bias: str = "plain",
    learnable: bool | None = None,
    std: float | None = None,
    filter_std: float | None = None,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Reparameterize the weights of ``model``'s layers in place, and return the model.

    These are Linear and ConvNd layers, recurrent ones (``nn.LSTM``, ``nn.GRU``, ``nn.RNN`` and their cells: every
    ``weight_ih`` and ``weight_hh``, called ``layer.weight_ih_l0`` and so on) and ``nn.MultiheadAttention``
    (``layer.in_proj_weight``). Each chosen weight ``W`` becomes ``vec(W) = U v``. Weights that are tied stay tied.
    The filter ``v`` starts at the least-squares fit of the weight, unless ``filter_std`` is given.

    Args:
        model: Any network.
        kind: ``"kronecker"`` (square factors that start as identities, so the model computes what it did),
            ``"dense"`` (one matrix U), or a callable ``(name, module) -> Symmetry | None``, where None leaves the
            weight plain. It is called once for each weight; of a recurrent or an attention layer ``name`` ends
            with the name of the tensor.
        select: Which layers: a name pattern, a type, a list of those, or a callable ``(name, module) -> bool``.
            Default: all.
        filter_size: Columns of a dense U, drawn from N(0, std^2); for ``"kronecker"`` the shape of the filter.
            Default: a square U that starts as the identity.
        bias: ``"plain"`` leaves biases as they are. ``"joint"`` makes each bias part of the symmetry, by the paper's
            appended input of 1; the weight then counts as a matrix ``[out, inputs + 1]``, for a convolution too.
            Recurrent and attention layers keep their biases as they are.
        learnable: Whether U is learned. Default: True.
        std: Standard deviation of the entries of U where they are drawn. Default: 0.01.
        filter_std: Draw the filter from N(0, filter_std^2) instead of fitting the weight.
        generator: Source of the random numbers.

    Returns:
        The same ``model``.

    Example:
        >>> import torch, metasym as ms
        >>> model = ms.reparameterize(torch.nn.Linear(4, 3), "dense", filter_size=5)
        >>> tuple(ms.symmetries(model)[""].filter_shape)
        (5,)
    """
    if bias not in ("plain", "joint"):
        raise MetasymError(
            f"expected bias to be 'plain' or 'joint', found {bias!r}", about="bias", found=bias
        )
    here = reparameterize.__name__
    for name, value in (("std", std), ("filter_std", filter_std)):  # NaN is refused where its layer is known
        check_argument(here, name, value, "float | None", numbers.Real | None)
    check_argument(here, "learnable", learnable, "bool | None", bool | None)
    check_argument(here, "generator", generator, "torch.Generator | None", torch.Generator | None)
    if filter_std is not None and not 0 <= filter_std < math.inf:
        raise MetasymError(
            f"expected filter_std >= 0, found {filter_std!r}", about="filter_std", found=filter_std
        )
    if isinstance(kind, str):
        learned, spread = learnable is None or learnable, 0.01 if std is None else std
        make: MakeSymmetry = _maker(kind, filter_size, bias, learned, spread, generator)
    elif callable(kind) and not isinstance(kind, Symmetry | type):
        given = {"filter_size": filter_size, "learnable": learnable, "std": std}
        unused = [name for name, value in given.items() if value is not None]
        if unused:
            raise MetasymError(
                f"expected {', '.join(unused)} only with a named kind, found it with a callable",
                about=", ".join(unused),
                found="a callable",
            )
        make = kind
    else:
        raise MetasymError(
            f"expected kind to be one of {', '.join(KINDS)} or a callable (name, module) -> Symmetry | None, "
            f"found {kind!r}",
            about="kind",
            found=type(kind).__name__,
        )
    if isinstance(model, nn.Module):
        model = uncompiled(model)
    chosen = select_layers(model, select)
    # Everything is made and checked before anything is changed: an error leaves the model as it was.
    sites = weight_sites(model)
    plan: dict[int, tuple[Symmetry, nn.Module, str]] = {}
    for layer, module in chosen:
        for tensor in weight_tensors(module):
            name, key = weight_name(layer, tensor), id(getattr(module, tensor))
            symmetry = None if key in plan else make(name, module)
            if symmetry is not None:
                check_fit(symmetry, name, module, tensor, bias, sites)
                plan[key] = (symmetry, module, tensor)
    if not plan:
        raise MetasymError(
            f"expected at least one layer with a symmetry, found None for all {len(chosen)} layers",
            about="kind",
            found=len(chosen),
        )
    if select is None:
        say_what_stays(model, set(plan))
    trainable = {
        key: bool(getattr(module, tensor).requires_grad) for key, (_, module, tensor) in plan.items()
    }
    for key, (symmetry, module, tensor) in plan.items():
        if has_joint_bias(module, tensor, bias):
            _install_joint(module, symmetry)
        else:
            _install(sites[key], symmetry)
        if not trainable[key]:
            symmetry.requires_grad_(False)  # a frozen weight stays frozen
        if filter_std is not None:
            original = list_of(module, tensor).original
            drawn = filter_std * torch.randn(original.shape, generator=generator, dtype=original.dtype)
            drawn += 0.0  # of -0.0 it makes 0.0: equal runs have equal bytes, whatever was drawn and multiplied by 0
            with torch.no_grad():
                original.copy_(drawn)
    return model


@checked
def bake(model: nn.Module) -> nn.Module:
    """Replace every symmetry by the weight that it produces, in place, and return the model.

    Args:
        model: A reparameterized network.

    Returns:
        The same ``model``: plain modules, whose parameters have the names and shapes of before
        :func:`reparameterize`.

    Example:
        >>> import torch, metasym as ms
        >>> model = ms.reparameterize(torch.nn.Linear(4, 3))
        >>> tuple(ms.bake(model).weight.shape)
        (3, 4)
    """
    baked: dict[int, nn.Parameter] = {}
    for module in list(model.modules()):
        for name in _symmetric_names(module):
            plist = list_of(module, name)
            if len(plist) > 1:
                raise MetasymError(
                    f"expected a symmetry alone on {name!r} of {type(module).__name__}, found "
                    f"{type(plist[1]).__name__} on top of it: remove that first",
                    about=name,
                    found=type(plist[1]).__name__,
                )
            # A joint bias has no filter of its own: it is trained where its layer's weight is.
            owner = list_of(module, "weight") if isinstance(plist[0], JointBias) else plist
            key = id(plist.original)
            if key not in baked:
                with torch.no_grad():
                    value = plist().clone()
                baked[key] = nn.Parameter(value, requires_grad=owner.original.requires_grad)
            _replace(module, name, baked[key])
    if not baked:
        raise MetasymError(
            f"expected a reparameterized model, found no symmetry in {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    return model


@checked
def split(model: nn.Module) -> Split:
    """Sort the parameters of ``model`` into U, v and others, by module type, not by name.

    Args:
        model: A reparameterized network.

    Returns:
        A :class:`Split` with the parameters by name.

    Example:
        >>> import torch, metasym as ms
        >>> parts = ms.split(ms.reparameterize(torch.nn.Linear(4, 3)))
        >>> len(parts.U), len(parts.v), list(parts.other)
        (2, 1, ['bias'])
    """
    result = Split()
    u_ids = {id(p) for m in model.modules() if isinstance(m, Symmetry) for p in m.parameters()}
    v_ids = {id(plist.original) for _, plist in symmetric_lists(model)}
    for name, parameter in model.named_parameters():
        part = result.U if id(parameter) in u_ids else result.v if id(parameter) in v_ids else result.other
        part[name] = parameter
    for name, module in model.named_modules():
        if isinstance(module, Symmetry):
            result.frozen.update({f"{name}.{n}": b for n, b in module.named_buffers()})
    return result


@checked
def symmetries(model: nn.Module) -> dict[str, Symmetry]:
    """Return the symmetry of each reparameterized weight, by its layer's name.

    Args:
        model: A network.

    Returns:
        ``{layer name: Symmetry}``; empty for a plain network. A single layer has the name ``""``. Recurrent and
        attention layers have several weights: ``lstm.weight_ih_l0``, ``attention.in_proj_weight``.
    """
    found: dict[str, Symmetry] = {}
    for name, plist in symmetric_lists(model):
        head = plist[0]
        found[name] = head.symmetry if isinstance(head, JointWeight) else head  # type: ignore[assignment]
    return found


def symmetric_lists(model: nn.Module) -> list[tuple[str, parametrize.ParametrizationList]]:
    """Each reparameterized weight's name, that of its layer where it has one weight, and what holds its filter."""
    return [
        (weight_name(layer, name), list_of(module, name))
        for layer, module in model.named_modules()
        for name in _symmetric_names(module)
        if not isinstance(list_of(module, name)[0], JointBias)
    ]


def _maker(
    kind: str,
    filter_size: int | Sequence[int] | None,
    bias: str,
    learnable: bool,
    std: float,
    generator: torch.Generator | None,
) -> MakeSymmetry:
    if kind not in KINDS:
        raise MetasymError(
            f"expected kind to be one of {', '.join(KINDS)} or a callable, found {kind!r}",
            about="kind",
            found=kind,
        )
    if kind == "dense" and not (filter_size is None or isinstance(filter_size, int)):
        raise MetasymError(
            f"expected filter_size of a dense symmetry to be one number, found {filter_size!r}",
            about="filter_size",
            found=filter_size,
        )
    if kind == "kronecker" and not fits(filter_size, Sequence[int] | None):
        raise MetasymError(
            f"expected filter_size of a Kronecker symmetry to be a shape, found {filter_size!r}",
            about="filter_size",
            found=filter_size,
        )

    def make(name: str, module: nn.Module) -> Symmetry:
        _, tensor = weight_site(name)
        tensor = (
            tensor if tensor in weight_tensors(module) else "weight"
        )  # a layer may be called like a tensor
        weight = getattr(module, tensor)
        assert isinstance(weight, Tensor)
        shape = joint_shape(module) if has_joint_bias(module, tensor, bias) else weight.shape
        common = {"learnable": learnable, "std": std, "generator": generator}
        try:
            if kind == "dense":
                return DenseSymmetry(shape, filter_size, dtype=weight.dtype, device=weight.device, **common)  # type: ignore[arg-type]
            return KroneckerSymmetry(shape, filter_size, dtype=weight.dtype, device=weight.device, **common)  # type: ignore[arg-type]
        except MetasymError as error:
            raise MetasymError(
                f"module {name!r}: {error}", about=f"module {name!r}: {error.about}", found=error.found
            ) from None

    return make


def _remember_order(module: nn.Module) -> None:
    """The order of a module's parameters before the first symmetry, for ``bake`` to restore."""
    if not hasattr(module, _ORDER):
        setattr(module, _ORDER, tuple(module._parameters))


def _install(places: list[tuple[nn.Module, str]], symmetry: Symmetry) -> None:
    first: parametrize.ParametrizationList | None = None
    for module, name in places:
        _remember_order(module)
        if first is not None:  # tied: register on a copy of its own, then share the first one's filter
            shared = module._parameters[name]
            assert shared is not None
            module._parameters[name] = nn.Parameter(
                first().detach().clone(), requires_grad=shared.requires_grad
            )
        parametrize.register_parametrization(module, name, symmetry, unsafe=True)
        if isinstance(module, nn.RNNBase):
            make_copyable(module)
        plist = list_of(module, name)
        if first is None:
            first = plist
        else:
            plist.original = first.original


def _install_joint(module: nn.Module, symmetry: Symmetry) -> None:
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    _remember_order(module)
    joint = JointWeight(symmetry, weight.shape, bias)
    parametrize.register_parametrization(module, "weight", joint, unsafe=True)
    joint._list = (list_of(module, "weight"),)
    # The bias owns nothing: a buffer of no entries stands where parametrize wants an original.
    del module._parameters["bias"]
    module.register_buffer("bias", weight.detach().new_empty(0), persistent=False)
    parametrize.register_parametrization(module, "bias", JointBias(list_of(module, "weight")), unsafe=True)


def _symmetric_names(module: nn.Module) -> list[str]:
    """The tensors of this very module that a symmetry makes; the bias first, as it reads the weight's v."""
    kinds = (Symmetry, JointWeight, JointBias)
    return sorted(n for n in lists_of(module) or () if isinstance(list_of(module, n)[0], kinds))


def _replace(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Put a plain parameter where a parametrization was.

    Not ``parametrize.remove_parametrizations``: that deletes the property from the module's class, which
    copies of the module share, and so breaks the model that a baked copy was made from.
    """
    lists = lists_of(module)
    assert lists is not None
    patched, plain = type(module), plain_type(module)
    del lists[name]
    if len(lists):
        kept = {k: v for k, v in vars(patched).items() if k not in (name, "__dict__", "__weakref__")}
        module.__class__ = type(patched.__name__, (plain,), kept)
    else:
        drop_lists(module)
        module.__class__ = plain
    module.register_parameter(name, parameter)
    order = getattr(module, _ORDER, ())
    ranked = sorted(module._parameters, key=lambda n: order.index(n) if n in order else len(order))
    module._parameters = {n: module._parameters[n] for n in ranked}
    if not len(lists):
        vars(module).pop(_ORDER, None)
    if isinstance(module, nn.RNNBase):
        module._init_flat_weights()
