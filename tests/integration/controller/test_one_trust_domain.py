"""What docs/threat-model.md says does not hold within one instance: it is one trust domain."""

from __future__ import annotations

from tests.support.site import Site

FORGE = r"""
(require (quote json))
(let ((queue (getenv "EFRIT_QUEUE_DIR")) file id)
  (while (not (setq file (car (directory-files (expand-file-name "requests" queue) t "\\`req_.*\\.json\\'"))))
    (sleep-for 0.05))
  (setq id (and (string-match "req_\\(.*\\)\\.json" file) (match-string 1 file)))
  (with-temp-file (expand-file-name "forged" queue)
    (insert (json-encode `(("id" . ,id) ("status" . "success") ("result" . "forged")))))
  (rename-file (expand-file-name "forged" queue) (expand-file-name (format "responses/resp_%s.json" id) queue))
  (while t))
"""


def test_code_of_one_request_can_answer_another_that_waits_on_the_same_instance(site: Site) -> None:
    site.operator().start()
    site.instance()
    forger = site.ask(FORGE)
    site.until_status(forger, phase="Running")
    victim = site.ask(site.count("never"))
    assert site.answer(victim)["result"] == "forged"
    site.cancel(forger)
    assert site.counted() == []
