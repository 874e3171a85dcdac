"""Views: a session as a page that people read, diff and edit; and their edits as recorded changes (decision 0019).

view       what a page holds: things with fields
escapes    text of any kind on one line of a page, and back
markdown   the lines of a page
page       a whole file: its head, its lines, its seal
gather     a view from what is stored
folder     the files beside a store, never written over an edit
keeping    who brings them up to date, and when
edits      what a person changed, found by comparing
apply      the changes as verbs, in one transaction
"""
