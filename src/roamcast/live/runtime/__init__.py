"""Any node on a real host: time, timers, links and a journal around the same object that runs in the simulator."""
