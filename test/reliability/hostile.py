"""Names that somebody might take for more than names, and files that hold them."""
import json
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTILE = [
    "$(touch owned)", "`touch owned`", "'; touch owned; '", '"; touch owned; "', "a\ntouch owned\n", "\\\ntouch owned",
    "#SBATCH --wrap=touch", "x\n#SBATCH --wrap=touch owned", "--help", "-rf /", "${IFS}touch${IFS}owned", "a & touch owned &",
    "</script><script>alert(1)</script>", "<!--<script>", "]]>", "<img src=x onerror=alert(1)>", "&lt;script&gt;", "{{result}}",
    "a: b", "- a", "# a", "a #b", "{a: 1}", "[a]", "*a", "&a", "!a", "|", ">", "%YAML", "@a", "null", "true", "1e3", "~", "0x1f", "'",
    '"', "\"\"\"", "'''", "a\tb", "\x1b[2J\x1b]0;owned\x07", "\x9b31m", "\u202etxt.exe", "\u200e\u200fa", "a\u061cb", "\ufeffa", "a\u2028b", "\x7f", "é漢字🙂", " leading",
    "trailing ", "../../etc/passwd", "/absolute", "%s%n", "\\x41\\n", "\\", "a\\", "$'\\n'",
]


def document(value):
    """JSON that is YAML too: its escapes are YAML's, but for pairs of surrogates."""
    def character(pair):
        return json.loads(f'"{pair[0]}"')
    return re.sub(r"\\ud[89ab]\w\w\\ud[c-f]\w\w", character, json.dumps(value))


def device(name, sources):
    """A shipped device under another name, with sources of its own."""
    spec = yaml.safe_load((ROOT / "hardware-profiles/devices/h100-sxm-80gb.yaml").read_text())
    spec.update(name=name, sources=sources)
    spec.pop("measured", None)
    return spec


def cluster(name, device_spec, gpus=4):
    """Of one node, whose levels and source have that name too."""
    levels = [{"name": name, "span": 2, "bandwidth": "450 GB/s", "latency": "3 us", "kind": "nvlink"},
              {"name": name + "'", "span": gpus, "bandwidth": "50 GB/s", "latency": "8 us", "kind": "pcie"}]
    return {"name": name, "device": device_spec, "nodes": 1, "gpus_per_node": gpus, "levels": levels, "source": name}
