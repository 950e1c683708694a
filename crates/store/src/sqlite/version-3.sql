-- How far `word` has come: the number of the last message whose words are in it.
CREATE TABLE indexed (through INTEGER NOT NULL) STRICT;
INSERT INTO indexed (through) SELECT coalesce(max(rowid), 0) FROM word;
