"""One function per figure: table in, matplotlib Figure out."""
