"""The words of the system as frozen values, and the definitions that everything fast is tested against.

Import each from its file: protocols start quickly because nothing here loads more than it needs.

- `event.py`: `Event`, `EventType`, `Announcement`; `subject.py`: subjects and patterns; `values.py`: `Point`,
  `Instant`, attributes
- `subscription.py`: `Subscription`; `scope.py`, `scope_text.py`: `Scope`, which hosts are meant
- `filter/`: `Filter`, the CQL2 language
- `region.py`: `Circle`, `Box`, `Polygon`, `Anchored`; `space.py`: `Plane` and `Earth`; `way.py`: straight ways and
  borders
- `context.py`: `Context` of one host and `Configuration` of all
- `match.py`: `matches`, the five conditions of C6; `topics.py`: many topic patterns at once
- `fence.py`, `fence_text.py`: `Fence` and its transitions
- `places.py`, `movement.py`: movement graphs, given or learned from traces
"""
