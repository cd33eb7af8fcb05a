"""Runs rdma-core's own Python tests on a device. For each it prints a line of three columns with tabs between
them: its name; ok, skipped or failed; why.

    rdmalink sandbox --device rxe -- python3 peertests.py DIRECTORY rxe0 1 198.51.100.1 [NAME ...]

DIRECTORY, whose name is tests, has the tests, in modules whose names begin with $MODULES, or else with test_. The other words are a device, the index of a GID, an address
of the device, and names of tests to leave out. The tests would ask the network interface of the device for
the address; devices of the sandbox have no such interface.
"""

import importlib
import os
import random
import sys
import unittest

directory, device, gid, address = sys.argv[1:5]
left_out = set(sys.argv[5:])
sys.path[:1] = [directory, os.path.dirname(directory)]
sys.argv[1:] = ["--dev", device, "--gid", gid]

importlib.import_module("args_parser").parser.parse_args()


def get_ip_mac(self, dev, port, index):
    self.args.append([dev, port, index, address, "02:00:00:00:00:01"])


importlib.import_module("tests.base").RDMATestCase._get_ip_mac = get_ip_mac


class Table(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        random.seed(1)  # some tests draw what they use

    def write(self, test, what, why="-"):
        print(name(test), what, str(why).strip().splitlines()[-1], sep="\t", flush=True)

    def addSuccess(self, test):
        self.write(test, "ok")

    def addSkip(self, test, reason):
        self.write(test, "skipped", reason)

    def addFailure(self, test, err):
        self.write(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure


def name(test):
    return test.id().removeprefix("tests.")


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        elif name(test) not in left_out:
            yield test


modules = sorted(f[:-3] for f in os.listdir(directory) if f.startswith(os.environ.get("MODULES", "test_")) and f.endswith(".py"))
for module in modules:
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests." + module))
    unittest.TestSuite(each(suite)).run(Table())
