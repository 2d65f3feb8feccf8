"""What all ranks import, once: the process they are forked from imports this."""

from . import worker  # noqa: F401
from .cases import composed

composed()  # options are imported when they are composed
