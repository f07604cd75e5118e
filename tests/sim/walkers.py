"""A scenario with everything in it that is drawn by chance, under any protocol without brokers."""

PROTOCOLS = {
    "flooding": 'kind = "flooding"\nforward_jitter_ms = 5',
    "context": 'kind = "context"\nkey_attributes = ["age"]',
    "proximity": 'kind = "proximity"',
}
AROUND = """relevance = { box_m = [300, 300], at = "anywhere" }
audience = { circle_m = 300, at = "with-me", filter = "%s" }"""
SCOPES = {
    "flooding": AROUND % "age > 20",
    # To the others nobody's neighbours are known, so they would deliver nothing.
    "context": AROUND % "age > 20 AND neighbours.count() > 1",
    "proximity": 'announce = { circle_m = 300 }\naudience = { filter = "age > 20" }',
}
SCENARIO = """
name = "repeatable"
seconds = 12
area_m = [600, 600]

[protocol]
@PROTOCOL@

[radio]
kind = "shared-medium"
range_m = 200

[[hosts]]
name = "walker"
count = 25
mobility = { kind = "random-waypoint", width_m = 600, height_m = 600, speed_min_mps = 1, speed_max_mps = 20 }
attributes = { mood = { choice = ["calm", "busy"] }, age = { integer = [1, 90] } }

[[publish]]
by = "walker"
share = 0.3
subject = "street/news"
every_s = 2
lifetime_s = [0, 3]
content = { topic = { choice = ["art", "food", "sport"] }, weight = { number = [0, 1] } }
@SCOPES@

[[subscribe]]
by = "walker"
share = 0.7
subject = "street/#"
every_s = 6
filter = "topic IN ('art', 'food') OR near(position, 100)"
interest = { circle_m = 200, at = "here" }

[faults]
loss = 0.1
duplicate = 0.05
reorder = 0.05
refuse_share = 0.1
clock_offset_ms = 100
crash = [{ host = "walker-3", at_s = 5, restart_s = 9, keeps_disk = false }]
pause = [{ host = "walker-4", at_s = 6, until_s = 8 }]
"""


def walkers_toml(protocol: str) -> str:
    return SCENARIO.replace("@PROTOCOL@", PROTOCOLS[protocol]).replace("@SCOPES@", SCOPES[protocol])
