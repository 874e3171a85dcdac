"""A store over the network: the ordinary handles on a `perdure serve`. See docs/decisions/0059."""
