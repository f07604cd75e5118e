"""Networks for tests that are real and small: namespaces of the kernel, and a radio between them that moves."""
