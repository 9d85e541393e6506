"""Writes the operator files; prints their paths as a CMake list. Files that would not change are left alone."""
import argparse
import os

FORMS = [
    ("x + {k}.0", "add"),
    ("x * {k}.0", "mul"),
    ("x * x + {k}.0", "square"),
    ("(x + {k}.0) / 2.0", "mean"),
]

HEAD = '#include "core/spark.h"\n#include "spark_config.h"\n#include <algorithm>\n#include <map>\n#include <string>\n\n'


def op_file(index):
    form, name = FORMS[index % len(FORMS)]
    body = form.format(k=index + 1)
    return HEAD + (
        "namespace spark {\n"
        "double op_%d(double x);\n"
        "double op_%d(double x) {\n"
        '  static const std::map<std::string, double> names = {{"%s", %d.0}};\n'
        "  return names.empty() ? 0.0 : %s;\n"
        "}\n}  // namespace spark\n"
    ) % (index, index, name, index, body)


def table_file(count):
    lines = ["double op_%d(double x);" % i for i in range(count)]
    cases = ["    case %d: return op_%d(x);" % (i, i) for i in range(count)]
    return HEAD + (
        "namespace spark {\n%s\nint op_count() { return %d; }\n"
        "double apply_op(int which, double x) {\n  switch (which) {\n%s\n    default: return 0.0;\n  }\n}\n"
        "}  // namespace spark\n"
    ) % ("\n".join(lines), count, "\n".join(cases))


def write(path, text):
    if os.path.exists(path):
        with open(path) as old:
            if old.read() == text:
                return
    with open(path, "w") as new:
        new.write(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    paths = []
    for index in range(args.count):
        path = os.path.join(args.out, "op_%02d.cpp" % index)
        write(path, op_file(index))
        paths.append(path)
    path = os.path.join(args.out, "table.cpp")
    write(path, table_file(args.count))
    paths.append(path)
    print(";".join(path.replace(os.sep, "/") for path in paths))


if __name__ == "__main__":
    main()
