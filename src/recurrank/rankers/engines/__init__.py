"""What ranking algorithms share."""
