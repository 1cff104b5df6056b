"""The studio without its page: a project on disk, whom to label next, teaching in the background, and the answers."""
