"""``birdlab check``: every problem of a file or folder in one list."""
