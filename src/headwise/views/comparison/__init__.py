"""The comparison of mixers, for the terminal and as pictures; it is given as the plain data of its JSON."""
