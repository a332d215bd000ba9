"""A robot's mirror: which joint goes to which, with which sign

Learning to walk needs a table of a robot's mirror image. metasym finds it in the robot's file, says what is not
symmetric there, checks a table that somebody wrote by hand, and writes the function that mirrors observations and
actions. MuJoCo then shows that a mirrored robot does what the robot does, mirrored.

Extras: simulators
"""

# %%
# ## The table
#
# Gymnasium's Humanoid has 17 joints. Their axes and signs are not what one would guess: both hips bend with the same
# sign, the shoulders with the opposite one. `main([...])` is the same as typing `metasym mirror humanoid.xml` in a
# shell.
import json
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import mujoco
import numpy as np

import metasym as ms
from metasym.cli import main
from metasym.robots import observation_code

humanoid = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "humanoid.xml"
main(["mirror", str(humanoid)])

# %%
# The last lines before the table are a surprise: this robot, on which many policies were trained, is not quite
# symmetric. The right hip has another rotor inertia than the left one, and only the left knee has a spring. Both are
# in the file, and both are easy to miss.
#
# ## A table written by hand
#
# Here is one with a wrong sign: the shoulders are mirrored as if they were knees.
found = ms.mirror(humanoid)
table = found.generators[0].table(found.names)
for row in table:
    if row["joint"] == "right_shoulder1":
        row["sign"] = +1
Path("table.json").write_text(json.dumps(table))
try:
    main(["mirror", str(humanoid), "--check", "table.json"])
except SystemExit as end:
    print(f"exit status {end.code}")

# %%
# ## The function
#
# A policy's observation has parts that a mirror moves in different ways. The angular velocity is an axial vector: its
# signs are the opposite of those of a velocity. `metasym mirror --python` writes a function for the layout and the
# order of joints that you name; it needs numpy or torch and nothing else.
model = mujoco.MjModel.from_xml_path(str(humanoid))
data = mujoco.MjData(model)
ids = model.actuator_trnid[:, 0]
motors = [model.joint(j).name for j in ids]
layout = ["lin_vel", "ang_vel", "gravity", "joint_pos", "joint_vel"]
source = observation_code(found, layout, joints=motors, absolute=True)
print(source[: source.index("def mirror_actions")])

# %%
# ## Stepped in a simulator
#
# A state and torques, and their mirror image by that function: MuJoCo steps both 30 times, with motors, springs and
# limits. What comes out should be mirror images too. It is not for the robot as it is in the file; with rotor and
# spring made equal on both sides it is up to rounding, until bodies touch and MuJoCo's solver ends within its own
# tolerance. Exchanging names without signs is something else altogether.
written = {"__name__": "written"}
exec(source, written)
plane = found.generators[0].action.isometry[:3, :3]


def frame(quaternion):
    """The rotation matrix of a quaternion."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def steps(turn, observation, torques, count=30):
    """Observations after each step, from a start in the air that is turned by ``turn``."""
    mujoco.mj_resetData(model, data)
    data.qpos[2] = 10
    mujoco.mju_mat2Quat(data.qpos[3:7], turn.ravel())
    data.qvel[:3], data.qvel[3:6] = turn @ observation[:3], observation[3:6]
    data.qpos[model.jnt_qposadr[ids]], data.qvel[model.jnt_dofadr[ids]] = np.split(observation[9:], 2)
    data.ctrl[:] = torques
    seen = []
    for _ in range(count):
        mujoco.mj_step(model, data)
        turn = frame(data.qpos[3:7])
        base = [turn.T @ data.qvel[:3], data.qvel[3:6], -turn[2]]
        joints = [data.qpos[model.jnt_qposadr[ids]], data.qvel[model.jnt_dofadr[ids]]]
        seen.append(np.concatenate([*base, *joints]))
    return np.array(seen)


draw = np.random.default_rng(0)
turn = frame(np.array([0.9, 0.1, 0.3, 0.3]) / np.linalg.norm([0.9, 0.1, 0.3, 0.3]))
angles = np.clip(0.2 * draw.normal(size=17), *model.jnt_range[ids].T)
start = np.concatenate([draw.normal(size=6), -turn[2], angles, draw.normal(size=17)])
torques = draw.uniform(-0.4, 0.4, 17)
images = [motors.index(row["image"]) for row in found.generators[0].table(tuple(found.names))]
by_name = np.empty(17)
for name, image in zip(found.names, images, strict=True):
    by_name[image] = torques[motors.index(name)]


def apart(there_torques):
    """How far the steps from the mirrored start are from the mirrored steps."""
    here = written["mirror_observations"](steps(turn, start, torques))
    there = steps(plane @ turn @ plane, written["mirror_observations"](start), there_torques)
    return np.abs(here - there).max(axis=1)


curves = {"names exchanged, no signs": apart(by_name)}
curves["the robot as in its file"] = apart(written["mirror_actions"](torques))
model.joint("right_hip_y").armature = model.joint("left_hip_y").armature
model.joint("right_knee").stiffness = model.joint("left_knee").stiffness
mujoco.mj_setConst(model, data)
curves["rotor and spring made equal"] = apart(written["mirror_actions"](torques))
for name, curve in curves.items():
    print(f"{name:28s} after 1 step {curve[0]:.1g}, after {len(curve)} steps {curve[-1]:.1g}")

# %%
# ## The picture
#
# Left the robot from the front: a joint and its image have one colour, joints that are their own image are black.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), label="The humanoid's pairs of joints, and how far mirrored steps are apart"
)
mechanism = found.mechanism
places = mechanism.rest_frames[:, :3, 3]
for joint, place in zip(mechanism.joints, places, strict=True):
    from_ = places[joint.parent] if joint.parent >= 0 else np.zeros(3)
    left.plot([from_[1], place[1]], [from_[2], place[2]], color="0.7", zorder=0)
pairs = sorted({tuple(sorted((i, j))) for i, j in enumerate(found.generators[0].action.images)})
colours = plt.get_cmap("tab10")
for k, pair in enumerate(pairs):
    own = len(set(pair)) == 1
    for i in set(pair):
        left.scatter(places[i][1], places[i][2], color="k" if own else colours(k % 10), s=35)
left.set(aspect="equal", xlabel="y", ylabel="z", title="joints and their images")
for name, curve in curves.items():
    right.semilogy(np.arange(1, len(curve) + 1), np.maximum(curve, 1e-16), label=name)
right.set(xlabel="steps of MuJoCo", ylabel="largest difference", title="mirrored run and run from the mirror")
right.legend(fontsize=8)
figure.tight_layout()
