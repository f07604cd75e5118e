"""The compact format of ad hoc messages: a value that repeats within a frame is written once.

A frame is one byte of version, then the message as msgspec's plain lists, numbers and texts, each behind one byte
that says what it is:

| byte | what follows | stands for |
|---|---|---|
| 00–3F | | the integer |
| 40–4F | so many items | a list |
| 50–6F | so many bytes | a text |
| 70–8F | | the list that was the first, second, ... of two items and more |
| 90–AF | | a word that all sides know |
| B0–BF | signed number | the first, second, ... float that stood behind D5 or D6, plus so many hundredths |
| C0–CF | signed number | the first, second, ... large integer, plus so many |
| D0–D2 | | null, false, true |
| D3, D4 | number | an integer from 0 up, and from -1 down |
| D5 | 8 bytes | a float |
| D6, D7 | signed number | a float in hundredths, and in ten millionths |
| D8 | offset, length | a part of all texts so far, one after the other |
| D9, DA | length, bytes | a long text; bytes |
| DB, DC | count, items | a long list; a map, key and value in turn |
| DD | number | a list that was, beyond the thirty-second |
| DE | x, y | a point |

Numbers are in groups of seven bits, the lowest first; signed ones take the sign into the lowest bit. So names, places
and contexts that occur again take two bytes, a box that is another one enlarged takes its four distances, and a place
that is whole in centimetres (or in ten millionths of a degree) takes eight bytes instead of eighteen. Nothing is
rounded: a float that none of these forms gives back to the last bit stands there whole.

Every frame can be read by itself: frames are lost, and whoever hears one may have heard none before.
"""

import struct

VERSION = 0xA2
WORDS = (
    *("v", "box", "circle", "anchored", "event", "subscription", "renewal", "digest"),
    *("matched-event", "matching-request", "beacon", "unknown", "flooded", "raised", "announced", "missed"),
    *("const", "cmp", "attr", "lit", "nbr", "me", "pub", "and"),
    *("=", "<", "<=", ">", ">=", "position", "value", "t"),
)
"""Texts of one byte: tags, operators and usual names. Their order is part of the version."""
DEPTH_MAX = 128
NODES_MAX = 1 << 18
"""Of a message when all repetitions are written out; texts count their characters beside that."""
FLOAT = struct.Struct(">d")
POINT_TAG = "p"
BASES_MAX = 16
LARGE = 1 << 14
"""From here on an integer takes three bytes, and it pays to say how far it is from another."""
