"""The executables of warm.py: hand the command over, wait, end the same way.

Runs without site-packages, so that it starts in milliseconds.
"""

import json
import os
import signal
import socket
import struct
import sys


def main() -> None:
    address, python, name, *words = sys.argv[1:]
    if name == "python":
        at = next((at for at, word in enumerate(words) if word not in ("-P", "-u")), 0)
        if words[at : at + 2] == ["-m", "isoscope"]:
            name, words = "isoscope", words[at + 2 :]
        elif words[at : at + 1] and words[at].endswith(".py"):
            words = words[at:]
        else:
            os.execv(python, [python, *words])
    folder = os.getcwd()  # noqa: PTH109 - pathlib alone would take longer to start than all of this
    request = {"name": name, "words": words, "folder": folder, "environment": dict(os.environ)}
    data = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [struct.pack("Q", len(data))], [0, 1, 2])
        server.sendall(data)
        code = int(server.recv(16) or b"70")  # nothing: the server itself has ended
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


main()
