# nvcc names a file's own symbols (anonymous namespaces, static device variables) after a checksum of its absolute
# path, and writes the name of a temporary file, which has the process's number in it, into each object. Measured with
# 13.0: told another path, and with its temporary files beside the object, it gives the same bytes wherever the tree
# lies. The object's own name is unique in a build and says nothing of the place. CMake reads the override before it
# makes its rule, and puts the object's name in for <OBJECT>. Not in configure's own trials: their objects have random
# names, which no cache has seen before.
file(WRITE "${CMAKE_BINARY_DIR}/rekindle-cuda-names.cmake" [==[
get_property(rekindle_trial GLOBAL PROPERTY IN_TRY_COMPILE)
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT WIN32 AND NOT rekindle_trial)
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --help OUTPUT_VARIABLE rekindle_help ERROR_QUIET)
  if(rekindle_help MATCHES "objdir-as-tempdir")
    string(APPEND _CMAKE_COMPILE_AS_CUDA_FLAG " --objdir-as-tempdir -Xcudafe --orig_src_path_name=<OBJECT>")
  endif()
endif()
]==])
set(CMAKE_USER_MAKE_RULES_OVERRIDE_CUDA "${CMAKE_BINARY_DIR}/rekindle-cuda-names.cmake")
