"""A gateway between an ad hoc area and the brokers (L9): a node that is both."""
