"""What tests of scripts that check a source tree share: a tree made up of a few files, and the script run on it."""
import pathlib
import subprocess
import sys
import tempfile


def check_tree(script, files):
    """Exit status of the script on a folder that holds `files`, {path: text}, and all that it said."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr
