//! What a server may ask of the application.
