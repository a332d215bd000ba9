"""The group that is named, from learning to certificate."""

import pytest
import torch

from metasym.certification.ladder import climb
from metasym.evidence import TaskStatistics
from metasym.evidence.fitting import robust_prior
from metasym.evidence.outliers import unlike
from tests.evidence.families import circulant, examples, generic, shifted

T, N = 160, 5


def ladder(x, y, **options):
    tasks = TaskStatistics.of(x, y)
    train, validation, fresh = tasks[slice(0, 100)], tasks[slice(100, 120)], tasks[slice(120, T)]
    fitted = robust_prior(train, validation)
    fresh = fresh[~unlike(fitted.prior, fresh)]
    return climb(fitted.prior, train[fitted.weights > 0], fresh, **options), fitted


def even(maps):
    """Circulant maps of even filters, which reversals keep too."""
    return (maps + maps.mT) / 2


@pytest.mark.parametrize(
    ("maps", "name"),
    [
        (shifted(T, N), "Z_5"),
        (even(shifted(T, N)), "D_5"),
        (
            circulant(
                torch.randn(T, N, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
                * torch.logspace(0, -2, N, dtype=torch.float64)
            ),
            "Z_5",
        ),
    ],
    ids=["shifts", "shifts and reversals", "variation of very different strengths"],
)
@pytest.mark.parametrize("count", [4, 12])
def test_the_largest_group_is_named(maps, name, count):
    found, _ = ladder(*examples(maps, count))
    assert found.certified is not None
    assert found.certified.group.name == name
    assert found.certified.certificate.bound < 1e-3


@pytest.mark.parametrize(
    "maps",
    [
        generic(T, N),
        shifted(T, N) + 0.1 * generic(T, N),
        torch.randn(T, 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * generic(1, N),
        torch.diag_embed(torch.randn(T, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0))),
        generic(T, N) * (torch.rand(N, N, generator=torch.Generator().manual_seed(4)) < 0.4),
    ],
    ids=["generic", "nearly circulant", "multiples of one map", "diagonal", "sparse"],
)
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_nothing_is_named_that_is_not_there(maps, noise):
    found, _ = ladder(*examples(maps, 12, noise))
    assert found.certified is None


def test_a_larger_group_that_holds_nearly_is_told_and_refuted():
    maps = even(shifted(T, N)) + 0.05 * (shifted(T, N, 7) - shifted(T, N, 7).mT)
    found, _ = ladder(*examples(maps, 12))
    assert found.certified is not None
    assert found.certified.group.name == "Z_5"
    (above,) = [r for r in found.rungs if r.group.name == "D_5"]
    assert above.certificate.refuted
    assert 0.02 < above.certificate.defect < 0.2


def test_a_few_tasks_of_another_kind_hide_nothing():
    maps = shifted(T, N)
    maps[::40] = generic(4, N)
    found, fitted = ladder(*examples(maps, 12))
    assert fitted.outliers == 3
    assert fitted.prior.directions == N
    assert found.certified is not None
    assert found.certified.group.name == "Z_5"


def test_the_symmetry_of_deviations_from_a_mean_map():
    maps = shifted(T, N) + 2 * generic(1, N)
    assert ladder(*examples(maps, 12))[0].certified is None
    found, _ = ladder(*examples(maps, 12), with_mean=False)
    assert found.certified is not None
    assert found.certified.group.name == "Z_5"


def test_the_tolerance_is_the_users():
    data = examples(shifted(T, N), 12, noise=0.3)
    assert ladder(*data, tolerance=0.5)[0].certified is not None
    assert ladder(*data, tolerance=0.001)[0].certified is None
