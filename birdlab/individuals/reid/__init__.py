"""Who a bird is by its looks: protocols, leaks, rankings and what they are worth."""
