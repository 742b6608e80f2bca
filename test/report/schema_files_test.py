#!/usr/bin/env python3
"""The JSON Schemas: their sources say nothing twice, and each file that is installed is complete.

usage: schema_files_test.py SOURCES BUNDLES
"""
import collections
import json
import pathlib
import sys
import unittest

import jsonschema

SOURCES, BUNDLES = pathlib.Path(), pathlib.Path()
COMMON = "common.schema.json"
LONGEST_COPY = 100  # characters of a schema that may stand twice


def read(folder):
    return {path.name: json.loads(path.read_text(encoding="utf-8"))
            for path in folder.glob("*.schema.json")}


def nodes(json_value):
    yield json_value
    if isinstance(json_value, (dict, list)):
        for inner in json_value.values() if isinstance(json_value, dict) else json_value:
            yield from nodes(inner)


def references(json_value):
    return [node["$ref"] for node in nodes(json_value) if isinstance(node, dict) and "$ref" in node]


def name_of(reference):
    return reference.rpartition("/")[2]


def needed(schema, definitions):
    """Names of the definitions that `schema` leads to."""
    found, waiting = set(), [schema]
    while waiting:
        for reference in references(waiting.pop()):
            name = name_of(reference)
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found


class SourcesTest(unittest.TestCase):
    def setUp(self):
        self.sources = read(SOURCES)
        self.common = self.sources[COMMON]["definitions"]

    def documents(self):
        return {name: schema for name, schema in self.sources.items() if name != COMMON}

    def test_references_lead_somewhere(self):
        for name, schema in self.sources.items():
            own = schema.get("definitions", {})
            for reference in references(schema):
                file, _, path = reference.partition("#/definitions/")
                self.assertIn(file, ("", COMMON) if name != COMMON else ("",), f"{name}: {reference}")
                self.assertIn(path, self.common if file else own, f"{name}: {reference}")

    def test_definitions_are_used(self):
        for name, schema in self.documents().items():
            own = schema.get("definitions", {})
            body = {key: value for key, value in schema.items() if key != "definitions"}
            self.assertEqual(needed(body, own), set(own), name)
            self.assertFalse(set(own) & set(self.common), f"{name} hides a common definition")

    def test_common_definitions_are_of_several_documents(self):
        users = collections.Counter(name for schema in self.documents().values()
                                    for name in needed(schema, self.common))
        for name, definition in self.common.items():
            # The names of the program's tables stand there, however many documents have them.
            self.assertGreaterEqual(users[name], 1 if "enum" in definition else 2, name)

    def test_nothing_is_said_twice(self):
        seen = collections.Counter()
        for schema in self.sources.values():
            for node in nodes(schema):
                if isinstance(node, dict):
                    text = json.dumps(node, sort_keys=True)
                    seen[text] += len(text) > LONGEST_COPY
                    if "enum" in node:
                        seen[json.dumps(node["enum"])] += 1
        self.assertEqual([text[:200] for text, times in seen.items() if times > 1], [])


class BundlesTest(unittest.TestCase):
    def test_every_document_has_one(self):
        self.assertEqual(set(read(BUNDLES)), set(read(SOURCES)) - {COMMON})

    def test_they_are_schemas(self):
        for schema in read(BUNDLES).values():
            jsonschema.Draft7Validator.check_schema(schema)

    def test_they_say_what_the_sources_say_and_need_no_other_file(self):
        sources = read(SOURCES)
        common = sources[COMMON]["definitions"]
        for name, bundle in read(BUNDLES).items():
            expected = json.loads(json.dumps(sources[name]).replace(COMMON + "#", "#"))
            definitions = expected.setdefault("definitions", {})
            definitions.update({used: common[used] for used in needed(expected, common)})
            if not definitions:
                del expected["definitions"]
            self.assertEqual(bundle, expected, name)
            for reference in references(bundle):
                self.assertTrue(reference.startswith("#/definitions/"), f"{name}: {reference}")
                self.assertIn(name_of(reference), definitions, f"{name}: {reference}")


if __name__ == "__main__":
    SOURCES, BUNDLES = map(pathlib.Path, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
