"""The files store: a log of JSON lines that people and git can read, and a cache of it that answers questions.

within    every file below the folder: by descriptors, through no link
secret    where the cache lies: a name that only its user knows
layout    the folder: segments, blobs, and what lies in `.perdure/` outside git
line      one transaction as one line: its form, its checksum, and finding whole ones in what is damaged
journal   the segments as one log: reading on from a mark, appending under the lock, rotating
load      lines into the cache, each event checked against the chain
seal      pages beside the log, and whether somebody edited them
aside     what could not be loaded, kept with its place and the reason
purge     bodies that were pruned leave the lines too
damage    a log that lost lines is refused, unless git put it back
agreement whether the cache says what the lines say
retold    the lines of a log from the tables; mending: back into a log that lost them; rewriting: a backup as a log
engine    the SQLite engine on the cache, with the append as the commit point
merge     two logs that continued from a common one
"""
