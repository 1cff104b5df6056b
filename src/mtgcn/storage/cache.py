"""The folder where mtgcn keeps what is costly to get again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder that $MTGCN_CACHE names, else the one the system gives programs for a user's cache."""
    chosen = os.environ.get("MTGCN_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path  # only here: with MTGCN_CACHE set it need not be installed

    return user_cache_path("mtgcn", appauthor=False)
