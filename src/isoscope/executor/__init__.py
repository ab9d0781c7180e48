"""Many runs at once: each in a process of its own, as many side by side as there is room for."""
