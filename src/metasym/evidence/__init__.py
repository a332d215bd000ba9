"""The prior of a family of linear tasks, learned by its evidence: ``vec(W_t) = mu + U v_t``, ``v_t ~ N(0, I)``.

Outputs carry noise of variance s2. The marginal likelihood of all tasks' outputs is maximised over mu, U and s2. That
is scale free, needs no pruning strength and no split into support and query, and gives each task's posterior.
"""

from metasym.evidence.fitting import Fitted, fit_prior
from metasym.evidence.prior import Prior
from metasym.evidence.statistics import TaskStatistics

__all__ = ["Fitted", "Prior", "TaskStatistics", "fit_prior"]
