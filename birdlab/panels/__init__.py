"""Galleries of photographs, one module per chapter; which pictures are shown follows from the tables alone."""
