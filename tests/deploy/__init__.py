"""Files of deploy/."""
