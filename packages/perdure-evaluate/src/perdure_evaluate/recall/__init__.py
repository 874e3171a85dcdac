"""How well recall finds what answers a question, on a labelled coding history of our own (history.txt, questions.txt)."""
