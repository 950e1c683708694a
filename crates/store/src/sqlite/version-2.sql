-- The words of each message, already split; `rowid` is the number of the message.
CREATE VIRTUAL TABLE word USING fts5 (words, content = '', contentless_delete = 1, tokenize = 'ascii');
