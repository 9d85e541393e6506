"""What the world allows, as sourced tables."""
