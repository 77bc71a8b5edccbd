"""Types of the loops of attention."""

from .work import Work

class Attention(Work): ...
