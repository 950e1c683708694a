use std::time::{SystemTime, UNIX_EPOCH};

/// A random number generator (xorshift). Tests print its seed.
pub struct Random(u64);

impl Random {
    /// Creates a generator with the time as its seed.
    pub fn from_time() -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the time is after 1970");
        // Never zero: all following numbers would be zero too.
        Random(now.as_nanos() as u64 | 1)
    }

    pub fn seed(&self) -> u64 {
        self.0
    }

    /// Returns a number less than `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
