//! Which server has which tool, and what it is called.
