"""The refusal that a mixture of datasets may pass over."""

from __future__ import annotations

from embedexp.config.errors import UserError


class NoNegativesError(UserError):
    """A dataset for which the option has no hard negatives."""
