"""Gymnasium's four-legged Ant in MuJoCo: joint torques to joint accelerations, floating at rest.

A task is a variant of the robot: masses and inertias of torso, upper and lower legs, the inertia of the motors'
rotors, and how far all four knees are bent. Every leg is changed alike, so that the robot keeps its symmetry.
"""

from __future__ import annotations

import gymnasium
import mujoco
import numpy as np

from studies.simulators import Array, Simulator

JOINTS = tuple(f"{part} {leg}" for leg in (1, 2, 3, 4) for part in ("hip", "ankle"))
KNEE = (1, -1, -1, 1)
"""The direction in which each leg's knee bends: the axes of legs 2 and 3 point the other way."""


def ant_maps(generator: np.random.Generator, tasks: int) -> Array:
    """The map of every task, ``[tasks, 8, 8]``: MuJoCo's answer to a unit torque at one joint after the other."""
    robot = gymnasium.make("Ant-v5").unwrapped
    model, data = robot.model, mujoco.MjData(robot.model)
    model.opt.gravity[:] = 0
    mass, inertia = model.body_mass.copy(), model.body_inertia.copy()
    # Bodies: 1 is the torso; then for each leg its root, the part after the hip, and the part after the ankle.
    parts = ([1], [2, 3, 5, 6, 8, 9, 11, 12], [4, 7, 10, 13])
    maps = np.empty((tasks, 8, 8))
    for task in range(tasks):
        for bodies in parts:
            heavier = 10 * generator.uniform(0.3, 3.0)
            model.body_mass[bodies] = mass[bodies] * heavier
            model.body_inertia[bodies] = inertia[bodies] * heavier * generator.uniform(0.5, 2.0)
        model.dof_armature[6::2] = generator.uniform(0.05, 1.0)
        model.dof_armature[7::2] = generator.uniform(0.05, 1.0)
        mujoco.mj_resetData(model, data)
        data.qpos[:7] = [0, 0, 10, 1, 0, 0, 0]  # far above the floor: nothing is touched
        data.qpos[8::2] = generator.uniform(np.deg2rad(30), np.deg2rad(70)) * np.array(KNEE)
        for joint in range(8):
            data.qfrc_applied[:] = 0
            data.qfrc_applied[6 + joint] = 1
            mujoco.mj_forward(model, data)
            maps[task, :, joint] = data.qacc[6:]
    robot.close()
    return maps


SIMULATORS = {
    "ant": Simulator(
        ant_maps,
        tuple(f"torque {joint}" for joint in JOINTS),
        tuple(f"acceleration {joint}" for joint in JOINTS),
        "D_4",
        "MuJoCo's Ant, joint torque to acceleration",
    )
}
