"""Options and arguments that are wrong, and what decisions and errors are in Python."""

from __future__ import annotations

import copy
import math
import pickle
import unittest
from typing import Any, Dict

from gateway_under_test import TOKEN, URL, client_of, of_the_authority, somebody
from sluice_client import (
    NEVER,
    AsyncClient,
    Check,
    Client,
    ClosedError,
    Decision,
    Mistake,
    OptionError,
    RefusedError,
    RequestError,
    SluiceError,
)


class Options(unittest.TestCase):
    WRONG: Dict[str, Dict[str, Any]] = {
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got 'gateway:8079'": {"url": "gateway:8079"},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got None": {"url": None},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got 'http://a:1/x'": {"url": "http://a:1/x"},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got 'http://a:1/?'": {"url": "http://a:1/?"},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got 'http://a:0'": {"url": "http://a:0"},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got 'http://a b:1'": {"url": "http://a b:1"},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got 'http://\\xfc:1'": {"url": "http://\u00fc:1"},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got 'unix:/'": {"url": "unix:/"},
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got text that is no such URL": {
            "url": "http://a:99999"
        },
        "url: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got a URL with a user in it": {
            "url": "http://u:secret@a:1"
        },
        "token: expected a caller token: one or more visible characters of ASCII, got a text of 8 characters": {
            "token": "a secret"
        },
        "token: expected a caller token: one or more visible characters of ASCII, got a NoneType": {"token": None},
        "deadline: expected seconds from 0.001 to 3600, got 0": {"deadline": 0},
        "deadline: expected seconds from 0.001 to 3600, got '1'": {"deadline": "1"},
        "deadline: expected seconds from 0.001 to 3600, got True": {"deadline": True},
        "deadline: expected seconds from 0.001 to 3600, got nan": {"deadline": math.nan},
        "on_failure: expected \"allow\" or \"deny\", got 'open'": {"on_failure": "open"},
        "max_batch: expected an integer from 1 to 100, got 101": {"max_batch": 101},
        "max_in_flight: expected an integer from 1 to 1000, got 1.5": {"max_in_flight": 1.5},
        "remember_refusals: expected seconds from 0 to 2147483, got -1": {"remember_refusals": -1},
        "max_remembered: expected an integer from 1 to 10000000, got 0": {"max_remembered": 0},
        "retry_after_failure: expected seconds from 0 to 2147483, got inf": {"retry_after_failure": math.inf},
        "on_event: expected a function of an event, got 'print'": {"on_event": "print"},
        "tls: expected an ssl.SSLContext, got True": {"url": "https://a", "tls": True},
    }

    def test_a_wrong_option_is_named_with_what_was_expected_and_what_came(self) -> None:
        for kind in (Client, AsyncClient):
            for message, options in self.WRONG.items():
                with self.subTest(message), self.assertRaises(OptionError) as raised:
                    kind(**{"url": URL, "token": TOKEN, **options})
                self.assertEqual(str(raised.exception), message)
                self.assertIsInstance(raised.exception, ValueError)

    def test_tls_without_https_is_wrong(self) -> None:
        with self.assertRaisesRegex(OptionError, "^tls: expected nothing, because the URL is not of https"):
            client_of(tls=of_the_authority())

    def test_right_options_are_taken(self) -> None:
        for url in ("http://gateway", "http://[::1]:8079/", "https://gateway:8443", "unix:/run/sluice.sock"):
            Client(url, TOKEN, deadline=3600, remember_refusals=0, retry_after_failure=0, max_batch=1).close()


class Arguments(unittest.TestCase):
    def setUp(self) -> None:
        self.client = client_of()
        self.addCleanup(self.client.close)

    def refused(self, message: str, call: Any, *arguments: Any, **more: Any) -> None:
        with self.subTest(message), self.assertRaises(OptionError) as raised:
            call(*arguments, **more)
        self.assertEqual(str(raised.exception), message)

    def test_a_text_is_no_key(self) -> None:
        # It would be a key with one part for each of its characters.
        self.refused("key: expected a list of texts, got 'acme'", self.client.check, "three", "acme")
        self.refused("key[1]: expected a text, got 7", self.client.check, "three", ["a", 7])
        self.refused("key: expected a list of texts, got None", self.client.peek, "three", None)

    def test_text_that_is_not_valid_unicode_is_an_error(self) -> None:
        bad = "\ud800"
        self.refused("key[1]: expected text that is valid Unicode, got '\\ud800'", self.client.check, "p", ["a", bad])
        self.refused("policy: expected text that is valid Unicode, got '\\ud800'", self.client.acquire, bad, max_wait=1)
        self.refused("plan: expected text that is valid Unicode, got '\\ud800'", self.client.hold, "p", plan=bad)
        checks = [Check("three", ["a"]), Check("three", [bad])]
        message = "checks[1].key[0]: expected text that is valid Unicode, got '\\ud800'"
        self.refused(message, self.client.check_all, checks)

    def test_numbers_that_json_has_not_are_errors(self) -> None:
        for cost in (math.nan, math.inf, "3", True):
            with self.subTest(cost), self.assertRaisesRegex(OptionError, "^cost: expected a whole number, got "):
                self.client.check("three", somebody(), cost=cost)
        self.refused("max_wait: expected seconds from 0.001 to 60, got 61", self.client.acquire, "three", max_wait=61)
        self.refused("ttl: expected seconds from 0.001, got 0", self.client.hold, "lasting", ttl=0)

    def test_all_of_nothing_is_an_error(self) -> None:
        self.refused("checks: expected 1 to 100 checks, got a list of 0", self.client.check_all, [])

    def test_a_fraction_is_refused_by_the_gateway(self) -> None:
        who = somebody()
        with self.assertRaises(RequestError) as raised:
            self.client.check("three", who, cost=1.5)
        self.assertEqual((raised.exception.code, raised.exception.status), ("invalid-request", 400))
        self.assertEqual([mistake.path for mistake in raised.exception.errors], ["cost"])
        self.assertEqual(self.client.peek("three", who).remaining, 3)

    def test_a_closed_client_refuses_calls_with_an_error(self) -> None:
        self.client.check("three", somebody())
        self.client.close()
        for call in (self.client.check, self.client.peek, self.client.hold):
            with self.assertRaises(ClosedError):
                call("three", somebody())


class Values(unittest.TestCase):
    def test_a_decision_is_true_if_it_is_allowed(self) -> None:
        who = somebody()
        with client_of() as client:
            self.assertTrue(client.check("three", who, cost=3))
            refused = client.check("three", who)
        self.assertFalse(refused)
        self.assertEqual((refused.limit, refused.remaining, refused.source), (3, 0, "gateway"))
        self.assertGreater(refused.retry_after or 0, 3600)

    def test_what_waiting_cannot_help_is_never(self) -> None:
        with client_of() as client:
            decision = client.check("three", somebody(), cost=4)
        self.assertEqual(decision.retry_after, NEVER)
        self.assertIsNone(decision.to_dict()["retryAfter"])
        self.assertNotIn("delay", decision.to_dict())

    def test_the_block_of_a_refused_hold_does_not_run(self) -> None:
        who = somebody()
        with client_of() as client, client.hold("lasting", who):
            second = client.hold("lasting", who)
            self.assertFalse(second)
            with self.assertRaises(RefusedError) as raised, second:
                self.fail("the block has run without a slot")
        self.assertIs(raised.exception.decision, second.decision)

    def test_values_and_errors_can_be_given_to_other_processes(self) -> None:
        decision = Decision(False, "p", "gateway", limit=1, retry_after=NEVER)
        error = RequestError("invalid-request", 400, "A sentence.", [Mistake("key[0]", "text", "7")])
        for value in (decision, error, RefusedError(decision), OptionError("url", "a", "b"), Check("p", ["a"])):
            again = pickle.loads(pickle.dumps(value))
            self.assertEqual((str(again), type(again)), (str(value), type(value)))
        self.assertEqual(copy.copy(error).errors, error.errors)
        self.assertIsInstance(error, SluiceError)


if __name__ == "__main__":
    unittest.main()
