"""From finished runs to tidy tables: curves, confusion matrices, comparisons of arms."""
