"""What the end-to-end tests stand on: a real server, real models, a client."""
