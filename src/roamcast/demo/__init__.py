"""A town on real streets, with live brokers and clients that drive, ride and walk through it: `roamcast demo`.

- `streets.py`: the town's file as a graph, routes along streets, and who is where on them after so many seconds
- `people.py`: who lives in the town, drawn from a seed
- `fleet.py`: four brokers as processes, each with a quarter of the town
- `actors.py`: clients of those brokers: cars, buses, pedestrians, an ambulance, lights, parking places
- `fences.py`: a school zone, the harbour, and who watches them
- `market.py`: an area without a broker, behind a gateway
- `running.py`: all of it together, from the first port to the last event
- `summary.py`: what is shown in the terminal meanwhile
- `verdict.py`: what the audit of its journal says
- `command.py`: `roamcast demo`, with the audit at its end
"""
