"""A fit worker without a process, whose fits never end."""

from mtgcn.errors import InputError
from mtgcn.studio.worker import Progress


class IdleWorker:
    """Counts how often a fit is started."""

    def __init__(self, refuses=False):
        self.progress, self.fits, self.refuses = Progress(), 0, refuses

    def prepare(self):
        pass

    def start(self):
        self.fits += 1
        if self.refuses:
            raise InputError("there is nothing to learn")
        self.progress = Progress("running")

    def cancel(self):
        self.progress = Progress("cancelled")
