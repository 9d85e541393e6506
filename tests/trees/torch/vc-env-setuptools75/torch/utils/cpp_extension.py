# A stand-in for torch/utils/cpp_extension.py: only the lines the patch looks at.
# …
    except AttributeError:
        from setuptools._distutils import _msvccompiler
        return _msvccompiler._get_vc_env(vc_arch)

# …
