"""``birdlab init``: a folder looked at, questions asked, a recipe and a manifest written."""
