"""Search: Optuna chooses the next experiment, the launcher runs it, its scores are the answer."""
