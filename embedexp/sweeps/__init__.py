"""Sweep files: a published table's definition becomes cells, runs, and the table again."""
