"""What adapting to a task means: the reference, written for one task on ``torch.func``."""
