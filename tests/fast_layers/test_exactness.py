"""Every way to compute a layer against the dense layer: outputs and gradients, relabelled, in both precisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metasym as ms
from metasym.fast_layers.compilation import plan_layer
from metasym.fast_layers.exporting import export
from metasym.fast_layers.given import structure
from metasym.fast_layers.pricing import Candidate
from metasym.fast_layers.sharing import Sharing
from tests.fast_layers import patterns

sizes = st.integers(5, 40)
few = st.integers(2, 6)
NAMED: dict[str, tuple[str, st.SearchStrategy[patterns.Classes]]] = {
    "circular": ("circular convolution", st.builds(patterns.circular, sizes)),
    "dihedral": ("circular convolution", st.builds(patterns.dihedral, sizes)),
    "torus": ("circular convolution", st.builds(patterns.torus, few, few)),
    "negacyclic": ("circular convolution", st.builds(patterns.negacyclic, sizes)),
    "few taps": ("circular convolution", st.builds(patterns.few_taps, st.integers(7, 40), st.integers(2, 3))),
    "symmetric": ("sums", st.builds(patterns.symmetric, sizes)),
    "exchangeable": ("sums", st.builds(patterns.exchangeable, st.integers(3, 6), st.integers(3, 6))),
    "blocks": ("blocks", st.builds(patterns.blocks, few, few)),
    "equal blocks": ("blocks", st.builds(patterns.equal_blocks, few, few)),
    "valid": ("valid convolution", st.builds(patterns.valid, st.integers(8, 40), st.integers(2, 5))),
    "padded": ("convolution", st.builds(patterns.padded, st.integers(8, 40), st.sampled_from([3, 5]))),
    "full": ("convolution", st.builds(patterns.full, st.integers(5, 30), st.integers(2, 6))),
    "full plane": (
        "convolution",
        st.builds(
            lambda *size: patterns.valid_plane(*size).T.copy(), st.just(5), st.integers(4, 6), st.just(2)
        ),
    ),
    "toeplitz": ("convolution", st.builds(patterns.toeplitz, st.integers(4, 30), st.integers(4, 30))),
    "plane": (
        "valid convolution",
        st.builds(patterns.valid_plane, st.integers(4, 7), st.integers(4, 7), st.just(2)),
    ),
}


def ways(sharing: Sharing, pairs: list[tuple[np.ndarray, np.ndarray]] | None = None) -> list[Candidate]:
    plan = plan_layer("layer", sharing, pairs or [], batch=10**6, element_size=4)
    return [*((plan.chosen,) if plan.chosen else ()), *plan.others]


def check(sharing: Sharing, candidate: Candidate, dtype: torch.dtype, seed: int) -> None:
    """Outputs, gradients of x, of the filter and of the bias, against ``F.linear`` with the dense weight."""
    g = torch.Generator().manual_seed(seed)
    m, n = sharing.shape
    filter = torch.randn(sharing.count, generator=g, dtype=dtype)
    bias = torch.randn(m, generator=g, dtype=dtype)
    x = torch.randn(2, 3, n, generator=g, dtype=dtype, requires_grad=True)
    weigh = torch.randn(2, 3, m, generator=g, dtype=dtype)
    W = sharing.weight(filter).requires_grad_()
    expected = torch.nn.functional.linear(x, W, bias)
    gradients = torch.autograd.grad((expected * weigh).sum(), [x, W])
    layer = candidate.build(filter, bias)
    found = layer(x)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    scale = float(expected.detach().abs().max())
    assert float((found - expected).detach().abs().max()) <= tolerance * scale, candidate.words
    (of_x,) = torch.autograd.grad((found * weigh).sum(), [x], retain_graph=True)
    assert float((of_x - gradients[0]).abs().max()) <= tolerance * float(gradients[0].abs().max())
    state = sum(p.numel() for name, p in layer.state_dict().items() if not name.endswith("bias"))
    assert state == sharing.count, candidate.words
    (of_weight,) = [sharing.filter_of(gradients[1]) * torch.from_numpy(sharing.sizes[1:]).to(dtype)]
    parts = [p for name, p in layer.named_parameters() if not name.endswith("bias")]
    of_parts = torch.autograd.grad((found * weigh).sum(), parts)
    # Along a random direction of the filter, built as a layer of its own, the outputs change as the dense ones do.
    direction = torch.randn(sharing.count, generator=g, dtype=dtype)
    along = [
        p for name, p in candidate.build(direction, None).named_parameters() if not name.endswith("bias")
    ]
    total = sum(float((a * p.detach()).sum()) for a, p in zip(of_parts, along, strict=True))
    dense = float((of_weight * direction).sum())
    assert abs(total - dense) <= 20 * tolerance * float((of_weight * direction).abs().sum() + 1)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("signs", [False, True], ids=["plain", "signs"])
@settings(max_examples=8, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**20))
def test_named_patterns_are_found_and_exact(name: str, signs: bool, data: st.DataObject, seed: int) -> None:
    kind, strategy = NAMED[name]
    classes = patterns.relabelled(data.draw(strategy), np.random.default_rng(seed), signs=signs)
    sharing = Sharing.of(classes)
    found = ways(sharing)
    kinds = {candidate.kind for candidate in found}
    if name == "dihedral" and len(classes) < 7:
        kinds.add(kind)  # so few classes that sums of inputs, or nothing, may be all there is
    assert kind in kinds
    for candidate in found:
        check(sharing, candidate, torch.float64, seed)
        check(sharing, candidate, torch.float32, seed)


GROUPS: dict[str, Callable[[], ms.groups.Group]] = {
    "reflection": lambda: ms.groups.from_generators([list(range(17, -1, -1))]),
    "odd reflection": lambda: ms.groups.from_generators([list(range(10, -1, -1))]),
    "rotated image": lambda: ms.groups.image_rotations(5, 4),
    "rotated and flipped image": lambda: ms.groups.image_rotations_flips(4, 4),
    "three circles": lambda: ms.groups.from_generators(
        [[*range(1, 7), 0, *range(8, 14), 7, *range(15, 21), 14]]
    ),
    "permuted blocks": lambda: ms.groups.symmetric(3).product(ms.groups.trivial(4), "product"),
    "dihedral group on itself": lambda: ms.groups.dihedral(5).regular(),
}


@pytest.mark.parametrize("name", GROUPS)
def test_symmetry_adapted_bases_are_exact(name: str) -> None:
    group = GROUPS[name]()
    sharing, pairs = structure(group, (group.degree, group.degree), "layer")
    found = [c for c in ways(sharing, pairs) if c.kind == "symmetry-adapted basis"]
    assert found
    check(sharing, found[0], torch.float64, 0)
    check(sharing, found[0], torch.float32, 1)


def test_a_group_gives_its_torus_where_classes_alone_do_not_tell() -> None:
    """Reflections of both axes besides shifts: no class is a permutation but the first, none one long cycle."""
    a, b = 4, 6
    x, y = np.divmod(np.arange(a * b), b)
    moves = [
        ((x + 1) % a) * b + y,
        x * b + (y + 1) % b,
        (-x % a) * b + y,
        x * b + (-y % b),
    ]
    group = ms.groups.from_generators([m.tolist() for m in moves])
    sharing, pairs = structure(group, (a * b, a * b), "layer")
    found = [c for c in ways(sharing, pairs) if c.kind == "circular convolution"]
    assert found
    check(sharing, found[0], torch.float64, 0)


def test_signed_permutation_groups_give_signed_patterns() -> None:
    turn = torch.zeros(8, 8, dtype=torch.float64)
    turn[torch.arange(1, 8), torch.arange(7)] = 1
    turn[0, 7] = -1
    sharing, _ = structure(ms.groups.from_generators([turn]), (8, 8), "layer")
    assert sharing.signed
    assert sharing.count == 8
    found = ways(sharing)
    assert found[0].kind == "circular convolution"
    check(sharing, found[0], torch.float64, 0)


def test_a_toeplitz_matrix_of_many_taps_is_found() -> None:
    classes = patterns.relabelled(patterns.toeplitz(500, 300), np.random.default_rng(0))
    found = ways(Sharing.of(classes))
    assert "convolution of 799 taps over 300, by FFT, relabelled" in {c.words for c in found}


def test_no_structure_is_found_in_random_ties() -> None:
    draw = np.random.default_rng(0)
    assert ways(Sharing.of(draw.integers(1, 200, (30, 30)))) == []


def test_a_pattern_that_is_almost_circular_is_not_taken_for_it() -> None:
    classes = patterns.circular(12)
    classes[3, 4] = 7
    assert not [c for c in ways(Sharing.of(classes)) if c.kind == "circular convolution"]


EVERY: dict[str, patterns.Classes] = {
    "circular": patterns.circular(16),
    "torus": patterns.torus(4, 5),
    "negacyclic": patterns.negacyclic(12),
    "few taps": patterns.few_taps(20, 3),
    "symmetric": patterns.symmetric(12),
    "exchangeable": patterns.exchangeable(3, 4),
    "blocks": patterns.blocks(3, 4),
    "equal blocks": patterns.equal_blocks(3, 4),
    "valid": patterns.valid(20, 3),
    "padded": patterns.padded(20, 3),
    "plane": patterns.valid_plane(5, 6, 2),
}


@pytest.mark.parametrize("name", EVERY)
def test_every_way_leaves_as_a_file_and_runs_in_bfloat16(name: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    sharing = Sharing.of(patterns.relabelled(EVERY[name], draw))
    everything = ways(sharing)
    without = plan_layer("layer", sharing, [], batch=10**6, element_size=4, onnx=True)
    assert without.chosen is None or not without.chosen.transforms
    g = torch.Generator().manual_seed(0)
    filter = torch.randn(sharing.count, generator=g)
    x = torch.randn(7, sharing.shape[1], generator=g)
    expected = x @ sharing.weight(filter).mT
    for number, way in enumerate(everything):
        layer = way.build(filter, None)
        for suffix in (".pt2",) if way.transforms else (".pt2", ".onnx"):
            if suffix == ".onnx":
                pytest.importorskip("onnxruntime")
                pytest.importorskip("onnxscript")
            assert export(layer, x, tmp_path / f"{number}{suffix}") <= 1e-5, way.words
        with torch.no_grad():
            assert torch.allclose(layer(x), expected, atol=1e-5 * float(expected.abs().max()))
            found = layer.bfloat16()(x.bfloat16())
        assert found.dtype == torch.bfloat16
        assert float((found.float() - expected).norm() / expected.norm()) <= 0.02, way.words
