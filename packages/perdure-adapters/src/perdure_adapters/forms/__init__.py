"""The forms of messages that frameworks have, one module each; none imports its framework, so that every adapter reads all."""
