"""For all unit tests: one certificate authority, as all of them take each TLS context 30 ms; no translations."""

import os

import certifi
import pytest

END = "-----END CERTIFICATE-----\n"

# In memory, gone with the process however that ends: runs of mutants end without tidying up.
AUTHORITY = os.memfd_create("authority")
os.write(AUTHORITY, (certifi.contents().partition(END)[0] + END).encode())
os.environ["SSL_CERT_FILE"] = f"/proc/{os.getpid()}/fd/{AUTHORITY}"
# argparse looks for translations of its words: a third of the time until a command line can be parsed.
os.environ["LANGUAGE"] = "C"
# Helm and the checks of the chart are short-lived programs of Go: a quarter of what they take is garbage collection.
os.environ.setdefault("GOGC", "400")

LONGEST = (
    "test_reconcile_pool_model.py",
    "test_figures.py",
    "test_handover_model.py",
    "test_plan_driver.py",
    "test_chart.py",
    "test_operations_hold.py",
    "test_json_limits.py",
    "test_supervise.py",
    "test_lease.py",
    "test_engine_crashes.py",
    "test_forked_programs.py",
    "test_mutants.py",
    "test_lease_thread.py",
    "test_upkeep.py",
    "test_queue.py",
    "test_work_log_tailer.py",
    "test_run_emacs.py",
    "test_chart_check.py",
    "test_fixed_inputs.py",
    "test_forks.py",
    "test_scan.py",
    "test_lanes.py",
    "test_chart_mcp.py",
    "test_api.py",
    "test_run_emacs_fast_start.py",
    "test_lazy_library.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no fork is busy with one after the others have ended."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
