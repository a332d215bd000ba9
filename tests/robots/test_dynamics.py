from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metasym.robots.dynamics import dynamics, frames_at
from metasym.robots.mechanism import Mechanism, joint_motion, pose
from metasym.robots.posture_certificate import draw_postures, relative
from metasym.robots.reading_robots import read_robot
from tests.robots.tiny_robots import arm, biped, fingers, written


def masses(inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Point masses with the same pseudo-inertia: places ``[k, 3]`` and masses ``[k]``."""
    mass = inertia[3, 3]
    if mass == 0:
        return np.zeros((0, 3)), np.zeros(0)
    centre = inertia[:3, 3] / mass
    values, vectors = np.linalg.eigh(inertia[:3, :3] - mass * np.outer(centre, centre))
    arms = vectors * np.sqrt(np.maximum(values, 0) * 3 / mass)
    places = np.concatenate([centre + arms.T, centre - arms.T])
    return places, np.full(6, mass / 6)


def kinetic_inertia(robot: Mechanism, q: np.ndarray) -> np.ndarray:
    """The inertia from the speeds of point masses, by differences: six numbers of a free base, then joints."""
    n = len(robot.joints)

    def places(move: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = move[:3]
        skew = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        base = pose(np.eye(3) + skew, move[3:6])  # to first order
        frames = frames_at(robot, (q + move[6:])[None])[0]
        found, weights = [], []
        for frame, inertia in [(np.eye(4), robot.base_inertia)] + [
            (frames[i], joint.inertia) for i, joint in enumerate(robot.joints)
        ]:
            p, m = masses(inertia)
            found.append((base @ frame @ np.concatenate([p, np.ones((len(p), 1))], 1).T).T[:, :3])
            weights.append(m)
        return np.concatenate(found), np.concatenate(weights)

    step = 1e-5
    columns = []
    for k in range(6 + n):
        move = np.zeros(6 + n)
        move[k] = step
        columns.append((places(move)[0] - places(-move)[0]) / (2 * step))
    speeds, weights = np.array(columns), places(np.zeros(6 + n))[1]
    return np.einsum("akc,bkc,k->ab", speeds, speeds, weights)


@pytest.mark.parametrize("text", [biped(), arm(0.05), fingers()])
def test_inertia_is_that_of_moving_point_masses(tmp_path: Path, text: str) -> None:
    robot = read_robot(written(tmp_path, text))
    q = draw_postures(robot, np.random.default_rng(1), 3)
    found = dynamics(robot, q)
    for k in range(3):
        whole = kinetic_inertia(robot, q[k])
        np.testing.assert_allclose(found.joints[k], whole[6:, 6:], atol=1e-8)
        np.testing.assert_allclose(found.momenta[k], whole[6:, :6], atol=1e-8)
        np.testing.assert_allclose(found.whole[k], whole[:6, :6], atol=1e-8)
    if robot.floating:
        reduced = whole[6:, 6:] - whole[6:, :6] @ np.linalg.solve(whole[:6, :6], whole[:6, 6:])
        np.testing.assert_allclose(found.free[2], reduced, atol=1e-8)


def test_gravity_is_the_slope_of_potential_energy(tmp_path: Path) -> None:
    robot = read_robot(written(tmp_path, arm()))
    q = draw_postures(robot, np.random.default_rng(2), 1)

    def energy(at: np.ndarray) -> float:
        frames = frames_at(robot, at[None])[0]
        return sum(float((frames[i] @ joint.inertia[:, 3])[2]) for i, joint in enumerate(robot.joints))

    for k in range(len(robot.joints)):
        step = np.zeros(len(robot.joints))
        step[k] = 1e-6
        slope = (energy(q[0] + step) - energy(q[0] - step)) / 2e-6
        assert dynamics(robot, q).gravity[0, k] == pytest.approx(slope, abs=1e-7)


def test_a_slide_moves_and_a_hinge_turns(tmp_path: Path) -> None:
    robot = read_robot(written(tmp_path, biped()))
    slide, hinge = robot.joints[robot.names.index("left_slide")], robot.joints[robot.names.index("left_roll")]
    np.testing.assert_allclose(joint_motion(slide, 0.2)[:3, 3], [0, 0, -0.2])
    np.testing.assert_allclose(joint_motion(hinge, np.pi / 2)[:3, :3] @ [0, 1, 0], [0, 0, 1], atol=1e-12)


def test_the_bound_of_a_ratio_is_seldom_too_low() -> None:
    draw = np.random.default_rng(3)
    low = 0
    for _ in range(400):
        apart, size = draw.exponential(size=60), 4 + draw.normal(size=60)
        low += relative(apart, size)[1] < 0.5  # the true ratio is 1/4
    assert low < 48  # 5 % are allowed; a few more for skewed squares


def test_pinocchio_has_the_same_inertia(tmp_path: Path) -> None:
    pin = pytest.importorskip("pinocchio", reason="pin is not installed: pip install pin")
    for name, text in (("biped", biped(yaw=0.3, at=(0.1, 0.2, 0.3))), ("arm", arm(0.1))):
        path = written(tmp_path, text, f"{name}.urdf")
        robot = read_robot(path)
        model = pin.buildModelFromUrdf(str(path))
        assert tuple(model.names)[1:] == robot.names
        data = model.createData()
        q = draw_postures(robot, np.random.default_rng(4), 5)
        found = dynamics(robot, q)
        for k in range(5):
            m = pin.crba(model, data, q[k])
            np.testing.assert_allclose(found.joints[k], np.triu(m) + np.triu(m, 1).T, atol=1e-12)
