"""Importers: what people already have, brought into a store. One module a format, one neutral form, one writer.

    a file ──format.read──▶ items (items.py) ──writing.py──▶ the planes' own verbs, in bounded commits

A format's module recognises its files by what is in them and reads them as items; it writes nothing and knows no store. The
writer alone records. Every file is hostile: nothing in it is unpickled, imported or called (P10). Lines, documents and rows have
a limit (P15); a broken part is left out and said so, the rest is taken. See docs/importing.md and
decision 0017.
"""
