"""How a step is computed fast: engines that give the reference's numbers, and the plan that chooses one."""
