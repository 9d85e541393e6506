# A stand-in for tools/build_pytorch_libs.py: only the lines the patch looks at.
# …
    except AttributeError:
        from setuptools._distutils import _msvccompiler  # type: ignore[import]

        return _msvccompiler._get_vc_env(vc_arch)  # type: ignore[no-any-return]

# …
