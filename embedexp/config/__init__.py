"""Compose, resolve, validate, explain and sign experiments."""
