from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from metasym.tasks import (
    ArrayTasks,
    AugmentQuery,
    FewShotTasks,
    PaperTransform,
    augment_query,
    from_arrays,
    kornia_transform,
    paper_transform,
    sample,
    seeded,
)
from metasym.tasks.augment import crop_and_flip, rotate
from metasym.tasks.sampling import mix
from metasym.types import Batch, Episode
from tests.refusals import refused


def tasks(size: int = 12) -> FewShotTasks:
    images = np.random.default_rng(0).integers(0, 256, (60, 2, size, size)).astype(np.uint8)
    return FewShotTasks(from_arrays(images, np.repeat(np.arange(6), 10)), ways=4, shots=2, queries=3)


def by_pil(image: torch.Tensor, box: list[int], flipped: list[bool], angle: float, size: int) -> np.ndarray:
    """One channel through the steps of the paper's listing, as torchvision takes them on PIL images."""
    top, left, height, width = box
    step = Image.fromarray(image.numpy()).crop((left, top, left + width, top + height))
    step = step.resize((size, size), Image.Resampling.BILINEAR)
    if flipped[0]:
        step = step.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    if flipped[1]:
        step = step.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(step.rotate(angle, Image.Resampling.BILINEAR))


@pytest.mark.parametrize(
    ("shape", "size"), [((28, 28), 28), ((84, 84), 84), ((105, 105), 28), ((30, 25), 20)]
)
def test_the_papers_transform_is_that_of_pil_step_by_step(shape, size, generator):
    images = torch.rand(20, 2, *shape, generator=generator)
    transform = PaperTransform(size)
    found = transform(images, seeded(5))
    again = seeded(5)
    boxes = transform.draw_boxes(20, *shape, again)
    flipped = torch.rand(20, 2, generator=again) < 0.5
    angles = (torch.rand(20, generator=again) * 2 - 1) * 30
    for i in range(20):
        for channel in range(2):
            wanted = by_pil(
                images[i, channel], boxes[i].tolist(), flipped[i].tolist(), float(angles[i]), size
            )
            assert np.abs(found[i, channel].numpy() - wanted).max() < 3e-5


def test_crops_are_drawn_as_torchvision_draws_them(generator):
    """Against its loop: up to ten tries of area and log-uniform aspect ratio, then the whole image."""
    boxes = PaperTransform().draw_boxes(20000, 28, 28, generator)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(20000):
        for _ in range(10):
            area = 28 * 28 * rng.uniform(0.8, 1.0)
            aspect = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
            width, height = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
            if 0 < width <= 28 and 0 < height <= 28:
                break
        else:
            width = height = 28
        sizes.append((height, width))
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 0] + boxes[:, 2] <= 28).all()
    assert (boxes[:, 1] + boxes[:, 3] <= 28).all()
    wanted, found = np.zeros((29, 29)), np.zeros((29, 29))
    np.add.at(wanted, tuple(np.array(sizes).T), 1 / 20000)
    np.add.at(found, tuple(boxes[:, 2:].numpy().T), 1 / 20000)
    assert np.abs(wanted - found).max() < 0.01
    assert np.abs(wanted - found).sum() < 0.12
    free = 28 - boxes[:, 2]
    for count in (2, 4):  # every position has its turn
        tops = torch.bincount(boxes[free == count, 0], minlength=count + 1) / (free == count).sum()
        assert (tops - 1 / (count + 1)).abs().max() < 0.05


def test_an_image_that_no_crop_fits_is_cut_to_the_nearest_ratio(generator):
    boxes = PaperTransform(scale=(1.0, 1.0), ratio=(1.0, 1.0)).draw_boxes(3, 10, 20, generator)
    assert boxes.tolist() == [[0, 5, 10, 10]] * 3


def test_kornias_own_rotation_and_crop_agree_inside(generator):
    import kornia.augmentation as K

    images = torch.rand(5, 3, 24, 24, generator=generator)
    angles = torch.linspace(-30, 30, 5)
    turn = K.RandomRotation(30.0, p=1.0, align_corners=True)
    theirs = turn(images, params={"degrees": angles, "batch_prob": torch.ones(5), **_shape(images)})
    inner = slice(6, -6)
    assert torch.allclose(rotate(images, angles)[..., inner, inner], theirs[..., inner, inner], atol=1e-5)

    boxes = torch.tensor([[1, 2, 20, 21]] * 5)
    found = crop_and_flip(images, boxes, torch.zeros(5, 2, dtype=torch.bool), (24, 24))
    cut = images[:, :, 1:21, 2:23]
    wanted = torch.nn.functional.interpolate(cut, size=(24, 24), mode="bilinear", align_corners=False)
    assert torch.allclose(found, wanted, atol=1e-5)


def test_the_same_in_kornias_transforms_looks_the_same(generator):
    """On average: equal images, many draws, away from the corners where the two pad differently."""
    image = torch.rand(1, 1, 16, 16, generator=generator)
    images = torch.nn.functional.avg_pool2d(image, 3, 1, 1).repeat(3000, 1, 1, 1)
    episode = Episode(Batch(images, images), Batch(images, images), torch.tensor(0))
    means = []
    for transform in (paper_transform(16), kornia_transform(16)):
        found = augment_query(episode, transform, seeded(1)).query.x[:, 0, 4:-4, 4:-4]
        means.append(torch.stack([found.mean(0), found.std(0)]))
    assert (means[0] - means[1]).abs().max() < 0.02


def _shape(images: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"forward_input_shape": torch.tensor(images.shape)}


def test_only_the_query_is_touched():
    """Fails if the support set is augmented, in any of the ways an episode is made."""
    plain, augmented = tasks(), AugmentQuery(tasks(), paper_transform())
    ids = torch.arange(16)
    before, after = sample(plain, ids, 3), sample(augmented, ids, 3)
    assert torch.equal(after.support.x, before.support.x)
    assert torch.equal(after.support.y, before.support.y)
    assert torch.equal(after.query.y, before.query.y)
    assert torch.equal(after.ids, before.ids)
    changed = (after.query.x != before.query.x).flatten(2).any(dim=2)
    assert changed.float().mean() > 0.95
    one, other = plain.episode(2, seeded(1)), augmented.episode(2, seeded(1))
    assert torch.equal(one.support.x, other.support.x)
    assert not torch.equal(one.query.x, other.query.x)
    seen = []

    def spy(images):
        seen.append(images.clone())
        return images * 0

    zeroed = sample(AugmentQuery(tasks(), spy), ids, 3)
    assert torch.equal(torch.stack(seen), before.query.x)
    assert torch.equal(zeroed.support.x, before.support.x)
    assert not zeroed.query.x.any()


def test_a_users_generator_is_honoured():
    episode = tasks().episode(0, seeded(0))
    transform = paper_transform()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = augment_query(episode, transform, seeded(7))
    assert torch.equal(torch.get_rng_state(), state), "the global generator was used"
    torch.manual_seed(2)
    again = augment_query(episode, transform, seeded(7))
    other = augment_query(episode, transform, seeded(8))
    assert torch.equal(one.query.x, again.query.x)
    assert not torch.equal(one.query.x, other.query.x)
    mine = seeded(7)
    mine_state = mine.get_state()
    augment_query(episode, transform, mine)
    assert not torch.equal(mine.get_state(), mine_state), "nothing was drawn from the user's generator"


def test_a_transform_of_kornia_draws_from_the_given_generator_too():
    import kornia.augmentation as K

    transform = K.RandomAffine(degrees=20.0, p=1.0)
    augmented = AugmentQuery(tasks(), transform)
    state = torch.get_rng_state()
    one = sample(augmented, torch.tensor([3, 1]), 5)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    alone = sample(augmented, torch.tensor([1]), 5)
    assert torch.equal(alone.query.x[0], one.query.x[1])
    assert not torch.equal(sample(augmented, torch.tensor([1]), 6).query.x[0], one.query.x[1])


def test_a_users_transform_may_take_the_generator():
    given = []

    def noise(images, generator):
        given.append(generator)
        return images + torch.randn(images.shape, generator=generator)

    mine = seeded(4)
    found = augment_query(tasks().episode(0, seeded(0)), noise, mine)
    assert given == [mine]
    assert not torch.equal(found.query.x, tasks().episode(0, seeded(0)).query.x)


def test_any_sampler_can_be_wrapped():
    x = torch.arange(24.0).reshape(4, 6, 1)
    family = ArrayTasks(x, x, support=2)

    class OneByOne:
        def __len__(self):
            return 4

        def episode(self, index, generator):
            return family.episode(index, generator)

    for inner in (family, OneByOne()):
        found = sample(AugmentQuery(inner, lambda images: images + 100), torch.tensor([0, 3]), 0)
        assert (found.support.x < 100).all()
        assert (found.query.x >= 100).all()
        assert torch.equal(found.query.x - 100, found.query.y)


@pytest.mark.parametrize(
    ("call", "about", "found"),
    [
        (lambda: AugmentQuery(tasks(), 3), "transform", 3),
        (
            lambda: sample(AugmentQuery(tasks(), lambda x: x[:2]), torch.arange(2), 0),
            "transform",
            (2, 2, 12, 12),
        ),
        (lambda: sample(AugmentQuery(tasks(), lambda x: 1), torch.arange(2), 0), "transform", "int"),
        (lambda: PaperTransform(0), "size", 0),
        (
            lambda: PaperTransform(scale=(0.5, 1.5)),
            "scale, ratio",
            ((0.5, 1.5), (3 / 4, 4 / 3)),
        ),
        (lambda: paper_transform()(torch.zeros(3, 4), seeded(0)), "images", (torch.float32, (3, 4))),
    ],
)
def test_bad_input(call, about, found):
    with refused(about, found):
        call()


class Views:
    """Tasks whose episodes are views of one tensor; support and query are the same."""

    def __init__(self) -> None:
        self.x = torch.arange(24.0).view(4, 6)

    def __len__(self) -> int:
        return 4

    def episode(self, index: int, _: torch.Generator) -> Episode:
        both = Batch(self.x[index].view(6, 1), self.x[index].view(6, 1))
        return Episode(both, both, torch.tensor(index))


class ManyViews(Views):
    def episodes(self, ids: torch.Tensor, _: torch.Tensor) -> Episode:
        both = Batch(self.x.view(4, 6, 1), self.x.view(4, 6, 1))
        assert ids.tolist() == [0, 1, 2, 3]
        return Episode(both, both, ids)


@pytest.mark.parametrize("kind", [Views, ManyViews])
def test_a_transform_that_works_in_place_touches_the_query_images_alone(kind):
    plain = kind()
    before = plain.x.clone()
    tasks_ = AugmentQuery(plain, lambda x: x.mul_(2))
    for _ in range(2):  # the second time nothing has been doubled
        found = sample(tasks_, torch.arange(4), 0)
        assert torch.equal(found.query.x, 2 * before.view(4, 6, 1))
        assert torch.equal(found.support.x, before.view(4, 6, 1))
        assert torch.equal(found.query.y, before.view(4, 6, 1))
        assert torch.equal(plain.x, before)


def test_transforms_on_top_of_each_other_draw_numbers_of_their_own():
    def noise(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.rand(x.shape, generator=generator)

    seen = []

    def keep(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen.append((x.clone(), torch.rand(x.shape, generator=generator)))
        return x

    inner = AugmentQuery(tasks(), noise)
    for outer in (AugmentQuery(inner, keep), AugmentQuery(AugmentQuery(inner, keep), keep)):
        seen.clear()
        sample(outer, torch.arange(3), 5)
        drawn = [pair[1] for pair in seen] + [seen[0][0]]
        assert all(not torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])
    # A wrapper alone draws what it always drew: recorded results stay what they are.
    alone = sample(inner, torch.arange(3), 5).query.x
    seeds = mix(mix(5, torch.arange(3)), 21).tolist()
    assert torch.equal(alone, torch.stack([noise(alone[0], seeded(seed)) for seed in seeds]))


@pytest.mark.parametrize(
    ("wrong", "about", "found"),
    [
        ({"scale": 0.8}, "scale", 0.8),
        ({"size": 2.5}, "size", 2.5),
        ({"ratio": (2, 1)}, "scale, ratio", ((0.8, 1.0), (2, 1))),
        ({"degrees": math.nan}, "degrees", pytest.approx(math.nan, nan_ok=True)),
        ({"degrees": -1.0}, "degrees", -1.0),
    ],
)
def test_parameters_of_the_papers_transform_are_checked(wrong, about, found):
    with refused(about, found):
        PaperTransform(**wrong)


def test_without_kornia_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "kornia.augmentation", None)  # as if it were not installed
    with refused("kornia"):
        kornia_transform(8)
