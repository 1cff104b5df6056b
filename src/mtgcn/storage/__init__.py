"""Files, folders, cache and locks on disk."""
