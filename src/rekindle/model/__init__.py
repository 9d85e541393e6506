"""The nouns: frozen values that pass between the stages."""
