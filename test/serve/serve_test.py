#!/usr/bin/env python3
"""Messages of `meshplan serve`, one a line: what it answers to right and wrong ones.

serve_test.py PROGRAM
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Serve(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        environment = {**os.environ, "MESHPLAN_DATA": str(ROOT), "TMPDIR": self.temporary.name}
        self.server = subprocess.Popen([PROGRAM, "serve", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env=environment)
        self.next_id = 0

    def tearDown(self):
        self.server.stdin.close()
        self.assertEqual(self.server.wait(30), 0)
        self.assertEqual(self.server.stderr.read(), "")
        self.server.stdout.close()
        self.server.stderr.close()
        self.assertEqual(os.listdir(self.temporary.name), [])
        self.temporary.cleanup()

    def send(self, text):
        self.server.stdin.write(text + "\n")
        self.server.stdin.flush()

    def answer(self):
        return json.loads(self.server.stdout.readline())

    def request(self, method, **params):
        self.next_id += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}))
        answer = self.answer()
        self.assertEqual(answer["id"], self.next_id)
        return answer

    def call(self, name, **arguments):
        return self.request("tools/call", name=name, arguments=arguments)["result"]

    def error_code(self, text):
        self.send(text)
        return self.answer()["error"]["code"]

    def test_revisions(self):
        for wanted, offered in (("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-06-18")):
            result = self.request("initialize", protocolVersion=wanted, capabilities={}, clientInfo={})["result"]
            self.assertEqual(result["protocolVersion"], offered)
            self.assertEqual(result["capabilities"], {"tools": {}})
        self.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.assertEqual(self.request("ping")["result"], {})

    def test_messages_that_are_none(self):
        self.assertEqual(self.error_code("{"), -32700)
        self.assertEqual(self.error_code("[]"), -32600)
        self.assertEqual(self.error_code('{"id":1,"method":"ping"}'), -32600)
        self.assertEqual(self.error_code('{"jsonrpc":"2.0","id":null,"method":"ping"}'), -32600)
        self.assertEqual(self.error_code('{"jsonrpc":"2.0","id":1,"method":"ping","params":3}'), -32602)
        self.assertEqual(self.error_code('{"jsonrpc":"2.0","id":1,"method":"prompts/list"}'), -32601)
        self.assertEqual(self.error_code('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bench"}}'), -32602)
        self.send("")  # an empty line, an answer and an unknown notification are passed over
        self.send('{"jsonrpc":"2.0","id":7,"result":{}}')
        self.send('{"jsonrpc":"2.0","method":"notifications/unheard"}')
        self.assertEqual(self.request("ping")["result"], {})

    def test_arguments_become_a_command_line(self):
        job = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "gpus": 8, "global-batch": 64, "seq-len": "4k"}
        result = self.call("estimate", **job, strategy="tp=2")
        self.assertFalse(result["isError"])
        command = [PROGRAM, "estimate", "--json", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "8",
                   "--global-batch", "64", "--seq-len", "4k", "--strategy", "tp=2"]
        printed = subprocess.run(command, capture_output=True, check=True, text=True,
                                 env={**os.environ, "MESHPLAN_DATA": str(ROOT)}).stdout
        self.assertEqual(result["structuredContent"], json.loads(printed))
        for wrong in ({"model": ["a", "b"]}, {"ignore-activations": "yes"}, {"model": None}, {"out": "x"}):
            self.assertTrue(self.call("plan", **{**job, **wrong})["isError"], wrong)
        self.assertTrue(self.call("list", kind="--help")["isError"])

    def test_files_stay_in_the_folder_of_their_call(self):
        for name in ("../a.sh", "/tmp/a.sh", "", ".", "a/../../b", "a/"):
            result = self.call("lint", file=["a.sh"], files={name: "x"})
            self.assertTrue(result["isError"], name)
            self.assertIn("is no name for a file", result["content"][0]["text"])
        result = self.call("lint", file=["a.sh"], files={"a.sh": 3})
        self.assertIn("must be a text", result["content"][0]["text"])

    def test_the_end_of_the_input_ends_what_runs(self):
        arguments = {"model": "deepseek-v3", "cluster": "dgx-h100", "gpus": 2048, "global-batch": 15360,
                     "seq-len": 4096, "space": "full"}
        for number in range(6):  # more than run at a time
            self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call",
                                  "params": {"name": "plan", "arguments": arguments}}))
        self.send('{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"list","arguments":{"kind":"models"}}}')
        self.assertEqual(self.answer()["error"]["code"], -32600)  # its id still runs
        self.send('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}')
        started = time.monotonic()
        self.assertEqual(self.request_of(9, "ping")["result"], {})
        self.assertLess(time.monotonic() - started, 10)

    def request_of(self, number, method):
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method}))
        while True:
            answer = self.answer()
            if answer["id"] == number:
                return answer


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
