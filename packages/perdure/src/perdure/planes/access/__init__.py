"""Access: the tokens with which people and programs come through a server's door, and the limits of tenants."""
