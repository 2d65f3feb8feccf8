"""Start many runs and watch them: plan every cell first, then run each in its own process."""
