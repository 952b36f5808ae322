"""The page: one HTML file in which every step of every head can be looked at, touched and checked."""
