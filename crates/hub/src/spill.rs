//! Results that are too large to hand on whole.
