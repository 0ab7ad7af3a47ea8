"""Designs: the points of a design space, their evaluation, the best of them."""
