-- Tokens that a server has found before: whether they still hold.

-- tokens_head: the head of the stream of tokens.
SELECT seq, hash FROM streams WHERE tenant = :tenant AND kind = 'scope' AND name = :scope
