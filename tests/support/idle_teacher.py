"""In the place of the process that teaches: it begins, and never comes to an end by itself."""

from mtgcn.errors import InputError
from mtgcn.studio.teaching import Progress


class Teacher:
    """Counts how often it is asked."""

    def __init__(self, refuses=False):
        self.progress, self.begun, self.refuses = Progress(), 0, refuses

    def prepare(self):
        pass

    def start(self):
        self.begun += 1
        if self.refuses:
            raise InputError("there is nothing to learn")
        self.progress = Progress("running")

    def cancel(self):
        self.progress = Progress("cancelled")
