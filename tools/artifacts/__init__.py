"""Model artifacts under models/: made here where that is possible, and checked before an engine sees them."""
