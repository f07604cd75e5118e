"""Brokers of an overlay on machines of their own, each a network namespace, with a radio between them."""
