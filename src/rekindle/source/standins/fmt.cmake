# Stand-in for third_party/fmt: the headers of this system's fmt, used without its library.
# Written by rekindle; the real submodule is fmtlib/fmt.
find_path(REKINDLE_FMT_INCLUDE fmt/format-inl.h)
if(NOT REKINDLE_FMT_INCLUDE)
  message(FATAL_ERROR "third_party/fmt is a stand-in for the system's fmt, and fmt/format-inl.h is not on this system")
endif()
foreach(name fmt fmt-header-only)
  add_library(${name} INTERFACE)
  target_compile_definitions(${name} INTERFACE FMT_HEADER_ONLY=1)
  # The compilers' own include folders are searched anyway; naming them again would change their order.
  if(NOT REKINDLE_FMT_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    target_include_directories(${name} SYSTEM INTERFACE $<BUILD_INTERFACE:${REKINDLE_FMT_INCLUDE}>)
  endif()
  add_library(fmt::${name} ALIAS ${name})
endforeach()
