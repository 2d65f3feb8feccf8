"""Routing: dense models, token-routed experts and task-routed experts."""
