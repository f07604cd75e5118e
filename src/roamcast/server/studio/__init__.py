"""The studio: what a broker shows to a page in a browser (L5; docs/reference/STUDIO.md).

`watcher.Watcher` looks on at the broker and keeps the last of everything; `feed.Feed` tells pages of it as it
happens, `answers.Answers` answers what they ask, and `bundle.Bundle` is the page itself.
"""
