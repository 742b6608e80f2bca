#!/usr/bin/env python3
"""Checks one JSON document against a JSON Schema.

usage: validate_json.py SCHEMA [DOCUMENT]      (standard input without DOCUMENT)

Prints "valid", or one line per error and exits with 1. Stricter than the schema alone: a key twice
in one object, NaN and Infinity are errors too.
"""
import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit("validate_json.py needs the Python package jsonschema: apt-get install -y python3-jsonschema")


def unique_keys(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"key {key!r} appears twice in one object")
    return dict(pairs)


def refuse_constant(text):
    raise ValueError(f"{text} is not JSON")


def path_of(error):
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path) or "."


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    try:
        if len(sys.argv) == 3:
            with open(sys.argv[2], encoding="utf-8") as file:
                text = file.read()
        else:
            text = sys.stdin.read()
        document = json.loads(text, object_pairs_hook=unique_keys, parse_constant=refuse_constant)
    except ValueError as failure:
        sys.exit(f"not a JSON document: {failure}")
    errors = sorted(jsonschema.Draft7Validator(schema).iter_errors(document), key=path_of)
    for error in errors:
        print(f"{path_of(error)}: {error.message[:300]}")
    if errors:
        sys.exit(1)
    print("valid")


if __name__ == "__main__":
    main()
