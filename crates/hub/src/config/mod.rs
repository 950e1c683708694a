//! `mcp.json`, as other hosts write it.
