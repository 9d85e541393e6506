# Stand-in for third_party/foxi, whose loader nothing but Caffe2's ONNXIFI backend calls. Written by rekindle.
add_library(foxi_loader INTERFACE)
