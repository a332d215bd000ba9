"""Which mirrors and turns does a robot have? Its joints' signed permutations, from its description."""

from metasym.robots.finding_mirrors import mirror
from metasym.robots.joint_tables import JointTable, parse_tables, read_tables, to_yaml
from metasym.robots.mechanism import Joint, Mechanism
from metasym.robots.observation_code import observation_code
from metasym.robots.posture_certificate import Certificate, Defect
from metasym.robots.reading_robots import read_robot
from metasym.robots.robot_symmetries import RobotSymmetries, RobotSymmetry
from metasym.robots.table_check import TableCheck, WrongEntry, check_table

__all__ = [
    "Certificate",
    "Defect",
    "Joint",
    "JointTable",
    "Mechanism",
    "RobotSymmetries",
    "RobotSymmetry",
    "TableCheck",
    "WrongEntry",
    "check_table",
    "mirror",
    "observation_code",
    "parse_tables",
    "read_robot",
    "read_tables",
    "to_yaml",
]
