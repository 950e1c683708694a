//! OAuth for servers on the network.
