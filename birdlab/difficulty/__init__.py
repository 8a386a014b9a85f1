"""Why birds are missed: factors of each labelled bird, recall by factor, and what holds jointly."""
