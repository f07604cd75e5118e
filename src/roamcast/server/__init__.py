"""A live broker on sockets: connections of clients, links to other brokers, the log, all on one event loop."""
