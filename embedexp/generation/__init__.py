"""Data that language models write: prompts, requests, answers that are kept, and their checks."""
