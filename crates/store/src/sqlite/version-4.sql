CREATE INDEX IF NOT EXISTS conversation_by_parent ON conversation (parent) WHERE parent IS NOT NULL;
