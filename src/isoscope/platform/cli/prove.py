"""Commands that prove what results rest on, and hand it over."""
