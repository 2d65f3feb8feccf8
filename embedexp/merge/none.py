"""merge=none: nothing to merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from embedexp.config.schema.merge import NoMerge


def merge(option: NoMerge) -> NoReturn:
    """There is nothing to merge.

    Raises:
        UserError: always; composing refuses `stage=merge` with this option before it comes here.
    """
    raise UserError("merge=none makes no model", hint="choose merge=uniform and merge.inputs=[...]")
