"""What is kept on disk: the cache folder, whole-or-nothing writes, locks."""
