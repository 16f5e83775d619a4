"""The record of a run: format, reading, writing, recording, analysis."""

from .journal import Journal
from .reader import Batch, Frame, MergedReader, decode
from .recorder import Recorder
from .writer import Writer

__all__ = ["Batch", "Frame", "Journal", "MergedReader", "Recorder", "Writer", "decode"]
