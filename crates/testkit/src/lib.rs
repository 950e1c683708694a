//! For tests only: servers that misbehave, and real ones to install.
