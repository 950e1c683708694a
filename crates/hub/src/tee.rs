//! Raw JSON beside the SDK's types.
