"""cpu, cuda and rocm: one module each, one protocol, one dict."""
