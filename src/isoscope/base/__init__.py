"""What both halves stand on: errors, files, processes, paths and the code closure; standard library only."""
