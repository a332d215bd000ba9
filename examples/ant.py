"""Which legs of a robot are interchangeable?

MuJoCo's four-legged Ant responds to torques at its eight joints with accelerations. metasym gets only such
measurements, of robots that differ in weight and posture, and finds which legs are interchangeable.

Extras: simulators
"""

# %%
# ## Measurements
#
# A task is one variant of the robot, with its own masses of torso, upper and lower legs, motors and knee angles.
# All four legs of a robot are equal, but metasym does not know this. Each robot has 20 random torques, and the
# accelerations that MuJoCo computes for them, at rest and without gravity.
import os

import gymnasium
import matplotlib.pyplot as plt
import mujoco
import numpy as np

import metasym as ms
from metasym.cli import main

quick = "QUICK" in os.environ
joints = [f"{part} {leg}" for leg in (1, 2, 3, 4) for part in ("hip", "ankle")]
robot = gymnasium.make("Ant-v5").unwrapped
model, data = robot.model, mujoco.MjData(robot.model)
mass, inertia = model.body_mass.copy(), model.body_inertia.copy()
torso, upper, lower = [1], [2, 3, 5, 6, 8, 9, 11, 12], [4, 7, 10, 13]
knees_bend = np.array([1, -1, -1, 1])  # the axes of legs 2 and 3 point the other way


def response(draw):
    """Torques to accelerations of one robot, 8 x 8: MuJoCo's response to a unit torque at each joint."""
    for bodies in (torso, upper, lower):
        heavier = 10 * draw.uniform(0.3, 3)
        model.body_mass[bodies] = mass[bodies] * heavier
        model.body_inertia[bodies] = inertia[bodies] * heavier
    model.dof_armature[6::2], model.dof_armature[7::2] = draw.uniform(0.05, 1, 2)
    mujoco.mj_resetData(model, data)
    data.qpos[8::2] = np.deg2rad(draw.uniform(30, 70)) * knees_bend
    mujoco.mj_forward(model, data)
    answers, torques = np.zeros((8, model.nv)), np.eye(8, model.nv, k=6)
    mujoco.mj_solveM(model, data, answers, torques)
    return answers[:, 6:].T


draw = np.random.default_rng(0)
maps = np.stack([response(draw) for _ in range(40 if quick else 200)])
x = draw.standard_normal((len(maps), 20, 8))
y = np.einsum("tij,tej->tei", maps, x)
print(
    f"{len(maps)} robots, {x.shape[1]} measurements each, of {x.shape[2]} torques and {y.shape[2]} accelerations"
)

# %%
# ## Learning
#
# Write the arrays and the names of their columns to a file, and run `metasym learn` on it.
np.savez(
    "ant.npz",
    x=x,
    y=y,
    input_names=[f"torque {joint}" for joint in joints],
    output_names=[f"acceleration {joint}" for joint in joints],
)
main(["learn", "ant.npz", "--out", "ant", "--progress", "silent"])

# %%
# ## The robot with its symmetries
#
# The picture shows each generator of the group on the robot, seen from above. An arrow leads from a joint to its
# image, orange for hips and blue for ankles. A minus means that the joint then turns the other way. The group
# contains the eight moves of a square: quarter turns and reflections. It contains more: at rest, the hips of
# opposite legs can be exchanged without their ankles.
run = ms.open_run("ant")
group = ms.inspect(run.model)[0].group
mujoco.mj_resetData(model, data)
mujoco.mj_forward(model, data)
feet = [
    data.geom_xpos[model.geom(f"{leg}_ankle_geom").id][:2] for leg in ("left", "right", "third", "fourth")
]


def draw_robot(axes, element, title):
    """The robot from above, with an arrow from each joint to where it goes."""
    places = [part * foot for foot in feet for part in (0.5, 1.0)]  # hip and ankle of each leg
    for leg, foot in enumerate(feet):
        axes.plot([0, foot[0]], [0, foot[1]], color="0.82", linewidth=9, solid_capstyle="round", zorder=1)
        axes.annotate(f"leg {leg + 1}", 1.45 * foot, ha="center", va="center")
    for joint, (to, sign) in enumerate(zip(element.inputs, element.input_signs, strict=True)):
        colour = "C1" if joint % 2 == 0 else "C0"
        axes.plot(*places[joint], "o", color=colour, markersize=7, zorder=3)
        if to != joint:
            style = {
                "arrowstyle": "-|>",
                "connectionstyle": "arc3,rad=0.22",
                "color": colour,
                "linewidth": 1.8,
            }
            axes.annotate("", places[to], places[joint], arrowprops=style, zorder=4)
        if sign < 0:
            axes.annotate("−", 1.2 * places[joint], color="C3", fontsize=15, ha="center", va="center")
    axes.add_patch(plt.Circle((0, 0), 0.2, color="0.6", zorder=2))
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", title=title)
    axes.axis("off")


if group is None:
    print("no group was named")
else:
    shown = group.generators[:4]
    figure, axes = plt.subplots(
        1,
        len(shown),
        figsize=(3.4 * len(shown), 3.6),
        squeeze=False,
        label="The robot and the moves of its legs",
    )
    for number, (place, element) in enumerate(zip(axes[0], shown, strict=True), start=1):
        draw_robot(place, element, f"generator {number}")
    print(f"{group.name}, of order {group.order}; {len(group.generators)} generators")
