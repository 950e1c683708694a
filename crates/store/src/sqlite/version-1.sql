CREATE TABLE conversation (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT,
    model TEXT,
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    usage TEXT NOT NULL, -- the sum over its messages, as JSON
    parent TEXT,
    parent_at INTEGER
) STRICT;

CREATE INDEX conversation_by_change ON conversation (changed DESC, id DESC);

CREATE TABLE message (
    number INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (number) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    time INTEGER NOT NULL,
    model TEXT,
    usage TEXT,
    body TEXT NOT NULL,
    UNIQUE (conversation, sequence)
) STRICT;
