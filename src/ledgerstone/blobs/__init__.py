"""Where the bytes of blobs live, and how they get there and back, checked."""
