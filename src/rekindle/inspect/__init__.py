"""What a wheel really contains, read from its bytes without importing it or any vendor's tool."""
