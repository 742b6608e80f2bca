"""What the checks of single files look at: what changed, or everything.

MESHPLAN_LINT=changed (the default): what differs from the commit that MESHPLAN_LINT_BASE names;
without that, from where HEAD left origin/main; where it did not leave it, from the commit ten before
HEAD. What is not committed yet counts too. Without git, or where it knows no such commit: everything.
MESHPLAN_LINT=all: everything.
"""
import os
import subprocess
import sys

LAST_COMMITS = 10


def direct_includes(root, path, known):
    """The project's headers that `path` names."""
    if path not in known:
        names = [line.split('"')[1] for line in path.read_text().splitlines()
                 if line.lstrip().startswith("#include \"")]
        candidates = [[root / "lib" / name, path.parent / name] for name in names]
        known[path] = [next(c.resolve() for c in pair if c.is_file())
                       for pair in candidates if any(c.is_file() for c in pair)]
    return known[path]


def includes_of(root, path, known):
    """The project's headers that `path` includes, directly or not."""
    pending, seen = [path], set()
    while pending:
        current = pending.pop()
        fresh = [header for header in direct_includes(root, current, known) if header not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return sorted(seen)


def git(root, *args):
    """The output's lines, or None where git cannot say."""
    try:
        run = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True)
    except OSError:
        return None
    return run.stdout.split("\n")[:-1] if run.returncode == 0 else None


def base_commit(root):
    named = os.environ.get("MESHPLAN_LINT_BASE")
    if named:
        if git(root, "rev-parse", "--verify", "--quiet", named + "^{commit}") is None:
            sys.exit(f"MESHPLAN_LINT_BASE names no commit: {named}")
        return named
    head = git(root, "rev-parse", "HEAD")
    fork = git(root, "merge-base", "HEAD", "origin/main")
    if fork and fork != head:
        return fork[0]
    before = git(root, "rev-parse", "--verify", "--quiet", f"HEAD~{LAST_COMMITS}")
    return before[0] if before else None


def changed_files(root):
    """Paths that differ from the base, committed or not; None for everything."""
    wanted = os.environ.get("MESHPLAN_LINT", "changed")
    if wanted not in ("changed", "all"):
        sys.exit(f"MESHPLAN_LINT is changed or all, not {wanted}")
    if wanted == "all":
        return None
    base = base_commit(root)
    if base is None:
        return None
    differing = git(root, "diff", "--name-only", "--diff-filter=d", base)
    fresh = git(root, "ls-files", "--others", "--exclude-standard")
    if differing is None or fresh is None:
        return None
    return {(root / name).resolve() for name in differing + fresh}
