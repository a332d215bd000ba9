from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.robots import observation_code
from tests.refusals import refused
from tests.robots.tiny_robots import arm, biped, fingers, written

LAYOUT = ["ang_vel", "gravity", "command", "joint_pos", "joint_vel", "actions"]


def run(source: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "__main__"}  # its own check runs too
    exec(source, scope)
    return scope


def test_twice_mirrored_is_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = ms.mirror(written(tmp_path, biped()))
    mirrored = run(observation_code(found, LAYOUT))["mirror_observations"]
    x = np.random.default_rng(0).normal(size=(4, 27))
    np.testing.assert_array_equal(mirrored(mirrored(x)), x)
    np.testing.assert_allclose(mirrored(torch.from_numpy(x)).numpy(), mirrored(x))
    single = x.astype(np.float32)
    assert mirrored(single).dtype == np.float32
    with pytest.raises(ValueError, match="27"):
        mirrored(x[:, :5])


def test_angular_velocity_is_an_axial_vector(tmp_path: Path) -> None:
    """The velocity ``w x r`` of a point of the base must be mirrored as the polar vector that it is."""
    for yaw in (0.0, 0.5):
        found = ms.mirror(written(tmp_path, biped(yaw=yaw)))
        mirrored = run(observation_code(found, ["ang_vel", "lin_vel", "gravity"]))["mirror_observations"]
        w, r = np.random.default_rng(1).normal(size=(2, 3))
        speed = np.cross(w, r)
        out = mirrored(np.concatenate([w, speed, r]))
        np.testing.assert_allclose(np.cross(out[:3], out[6:]), out[3:6], atol=1e-12)


def test_commands_and_joints_follow_the_mirror(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, biped()))
    order = ["right_roll", "left_roll", "left_pitch", "right_pitch"]
    scope = run(observation_code(found, ["command", "joint_pos", "keep:2"], joints=order))
    out = scope["mirror_observations"](np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9]))
    np.testing.assert_array_equal(out, [1, -2, -3, -5, -4, 7, 6, 8, 9])
    np.testing.assert_array_equal(scope["mirror_actions"](np.array([1.0, 2, 3, 4])), [-2, -1, 4, 3])


def test_absolute_positions_are_mirrored_about_the_centre(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, arm()))
    assert found.centre.any()
    q = np.random.default_rng(2).normal(size=(3, 4))
    absolute = run(observation_code(found, ["joint_pos"], absolute=True))["mirror_observations"]
    np.testing.assert_allclose(absolute(q), found.on_postures(q), atol=1e-9)
    relative = run(observation_code(found, ["joint_pos"]))["mirror_observations"]
    np.testing.assert_allclose(relative(q - found.centre) + found.centre, found.on_postures(q), atol=1e-9)


def test_a_turn_of_order_three_comes_back_after_three(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, fingers()))
    turned = run(observation_code(found, ["gravity", "joint_pos"]))["mirror_observations"]
    x = np.random.default_rng(3).normal(size=9)
    np.testing.assert_allclose(turned(turned(turned(x))), x, atol=1e-9)
    assert np.abs(turned(turned(x)) - x).max() > 0.1


def test_bad_wishes_are_refused(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, biped()))
    with refused("layout", "angvel"):
        observation_code(found, ["angvel"])
    with refused("layout", ()):
        observation_code(found, [])
    with refused("joints", "knee"):
        observation_code(found, LAYOUT, joints=["knee"])
    with refused("joints", "no image of left_roll"):
        observation_code(found, LAYOUT, joints=["left_roll"])
    with refused("generator", 3):
        observation_code(found, LAYOUT, generator=3)


def test_a_mirrored_state_steps_to_the_mirrored_next_state(tmp_path: Path) -> None:
    pin = pytest.importorskip("pinocchio", reason="pin is not installed: pip install pin")
    path = written(tmp_path, biped(yaw=0.4, at=(0.1, 0.0, 0.2)))
    found = ms.mirror(path)
    scope = run(observation_code(found, ["lin_vel", "ang_vel", "gravity", "joint_pos", "joint_vel"]))
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    data = model.createData()
    draw = np.random.default_rng(4)
    linear = found.generators[0].action.isometry[:3, :3]
    turn = pin.exp3(draw.normal(size=3))
    start = np.concatenate([draw.normal(size=6), -turn[2], draw.normal(size=6) * 0.3, draw.normal(size=6)])
    action = draw.normal(size=6)

    def step(turn: np.ndarray, x: np.ndarray, action: np.ndarray) -> np.ndarray:
        q = np.concatenate([np.zeros(3), pin.Quaternion(turn).coeffs(), x[9:15]])
        v = np.concatenate([x[:6], x[15:]])
        for _ in range(20):
            v = v + 1e-3 * pin.aba(model, data, q, v, np.concatenate([np.zeros(6), action]))
            q = pin.integrate(model, q, 1e-3 * v)
        return np.concatenate([v[:6], -pin.Quaternion(q[3:7]).toRotationMatrix()[2], q[7:], v[6:]])

    one = step(turn, start, action)
    two = step(linear @ turn @ linear, scope["mirror_observations"](start), scope["mirror_actions"](action))
    np.testing.assert_allclose(two, scope["mirror_observations"](one), atol=1e-8)
    assert np.abs(one - start).max() > 0.1
