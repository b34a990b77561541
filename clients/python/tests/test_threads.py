"""The client of threads: calls that share requests, interruptions, deadlines that hold whatever is slow, and its connections."""

from __future__ import annotations

import signal
import socket
import threading
import time
import unittest
from unittest import mock

from gateway_under_test import (
    ANSWER,
    ANSWERS_WITHOUT_LENGTH,
    ENDLESS_ANSWERS,
    HEADS_OF_NO_HTTP,
    SOCKET,
    TLS_URL,
    Listener,
    client_of,
    drip,
    of_the_authority,
    read_request,
    send,
    sends,
    somebody,
    until,
)
from sluice_client import Client, Decision, Event


class SharedRequests(unittest.TestCase):
    def test_many_threads_share_requests_and_each_hears_its_own_decision(self) -> None:
        events: list[Event] = []
        with client_of(on_event=events.append, remember_refusals=0) as client:
            decisions: list[list[Decision]] = []

            def ask(i: int) -> None:
                # Each user has three units: the first half of a user's calls is allowed.
                decisions.append([client.check("three", [f"{prefix}-{i}"]) for _ in range(6)])

            prefix = somebody()[0]
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual([[bool(one) for one in own] for own in decisions], [[True] * 3 + [False] * 3] * 64)
        self.assertEqual({event.source for event in events}, {"gateway"})
        self.assertGreater(max(event.batch for event in events), 10)

    def test_a_caller_without_company_sends_its_own_request_and_no_thread_is_started(self) -> None:
        with client_of() as client, mock.patch.object(threading.Thread, "start") as start:
            for _ in range(3):
                self.assertTrue(client.check("many", somebody()))
        start.assert_not_called()

    def test_a_caller_serves_the_others_itself_if_no_thread_can_be_started(self) -> None:
        asked, released = threading.Event(), threading.Event()

        def serve(connection: socket.socket) -> None:
            while read_request(connection):
                asked.set()
                released.wait(60)
                send(connection, ANSWER)

        with Listener(serve) as listener, client_of(url=listener.url, max_in_flight=1) as client:
            decisions: list[Decision] = []
            callers = [threading.Thread(target=lambda: decisions.append(client.check("p"))) for _ in range(2)]
            callers[0].start()
            self.assertTrue(asked.wait(60))
            callers[1].start()
            until(lambda: len(client._core.batches._waiting) == 1, "the second call waits")
            with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
                released.set()
                for caller in callers:
                    caller.join(60)
        self.assertEqual([bool(decision) for decision in decisions], [True, True])


class Interruptions(unittest.TestCase):
    def test_a_call_that_is_interrupted_in_line_leaves_it_and_tells_no_event(self) -> None:
        who = somebody()
        events: list[Event] = []
        with client_of(on_event=events.append) as client:
            # A unit comes every 8 s.
            client.check("slow", who)
            self.interrupt_after(0.5)
            with self.assertRaises(InterruptedByTest):
                client.acquire("slow", who, max_wait=60)
            self.assertEqual([event.call for event in events], ["check"])
            # Had the other stayed in line, this one would wait for the second unit.
            decision = client.acquire("slow", who, max_wait=12)
        self.assertTrue(decision)
        self.assertGreater(decision.waited or 0, 3)

    def test_a_check_that_is_interrupted_gives_its_place_to_the_next(self) -> None:
        silent = threading.Event()

        def serve(connection: socket.socket) -> None:
            while read_request(connection):
                if silent.is_set():
                    connection.recv(1)
                send(connection, ANSWER)

        with Listener(serve) as listener, client_of(url=listener.url, max_in_flight=1) as client:
            silent.set()
            self.interrupt_after(0.3)
            with self.assertRaises(InterruptedByTest):
                client.check("p")
            silent.clear()
            self.assertEqual(client.check("p").source, "gateway")

    def interrupt_after(self, seconds: float) -> None:
        def interrupt(_number: int, _frame: object) -> None:
            raise InterruptedByTest

        former = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, former)
        signal.setitimer(signal.ITIMER_REAL, seconds)


class InterruptedByTest(BaseException):
    pass


class Deadlines(unittest.TestCase):
    def late(self, client: Client) -> None:
        began = time.monotonic()
        decision = client.check("p")
        took = time.monotonic() - began
        self.assertEqual((decision.allowed, decision.source), (False, "failure"))
        self.assertIn("within the deadline", decision.failure or "")
        # A busy machine may be late; what it waits for here takes a minute.
        self.assertTrue(0.29 < took < 30, took)

    def test_an_answer_that_comes_byte_by_byte_is_cut_at_the_deadline(self) -> None:
        with Listener(drip) as listener, client_of(url=listener.url, deadline=0.3) as client:
            self.late(client)

    def test_a_name_that_is_looked_up_for_long_is_left_at_the_deadline(self) -> None:
        ended = threading.Event()
        self.addCleanup(ended.set)
        with mock.patch("socket.getaddrinfo", side_effect=lambda *_, **__: ended.wait(60)):
            self.late(client_of(url="http://gateway.test:8079", deadline=0.3))

    def test_a_server_that_is_silent_in_its_handshake_is_left_at_the_deadline(self) -> None:
        with Listener(lambda connection: time.sleep(60)) as listener:
            url = listener.url.replace("http", "https")
            self.late(client_of(url=url, deadline=0.3, tls=of_the_authority()))


class ConnectionsOfThreads(unittest.TestCase):
    def test_a_connection_is_kept_and_used_again(self) -> None:
        accepted: list[socket.socket] = []

        def serve(connection: socket.socket) -> None:
            accepted.append(connection)
            while read_request(connection):
                send(connection, ANSWER)

        with Listener(serve) as listener, client_of(url=listener.url) as client:
            for _ in range(5):
                self.assertTrue(client.check("p"))
        self.assertEqual(len(accepted), 1)

    def test_an_answer_in_chunks_is_read_and_one_without_a_length_too(self) -> None:
        for serve in ANSWERS_WITHOUT_LENGTH:
            with self.subTest(serve), Listener(serve) as listener, client_of(url=listener.url) as client:
                self.assertEqual(client.check("p").remaining, 9)

    def test_an_answer_whose_end_nobody_can_know_is_no_http_and_ends_the_connection(self) -> None:
        for head in HEADS_OF_NO_HTTP:
            left = threading.Event()
            with self.subTest(head[:60]), Listener(sends(head, left)) as listener, client_of(url=listener.url) as client:
                self.assertRegex(client.check("p").failure or "", "^The gateway did not answer: ")
                self.assertTrue(left.wait(60))

    def test_an_endless_answer_is_left_after_a_mebibyte(self) -> None:
        for serve in ENDLESS_ANSWERS:
            with self.subTest(serve), Listener(serve) as listener, client_of(url=listener.url) as client:
                self.assertEqual(client.check("p").failure, "The gateway's answer is larger than 1048576 bytes.")

    def test_it_asks_by_tls_and_trusts_nobody_else(self) -> None:
        with client_of(url=TLS_URL, tls=of_the_authority()) as client:
            self.assertEqual(client.check("many", somebody()).source, "gateway")
        decision = client_of(url=TLS_URL).check("many", somebody())
        self.assertEqual(decision.source, "failure")
        self.assertIn("CERTIFICATE_VERIFY_FAILED", decision.failure or "")

    def test_what_is_no_name_of_a_host_is_a_failure(self) -> None:
        self.assertEqual(client_of(url="http://a..b:1").check("p").source, "failure")

    def test_it_asks_by_a_unix_socket(self) -> None:
        with client_of(url=f"unix:{SOCKET}") as client:
            self.assertEqual(client.check("many", somebody()).source, "gateway")


class Holds(unittest.TestCase):
    def test_a_hold_is_renewed_while_its_block_runs_and_free_after_it(self) -> None:
        who = somebody()
        with client_of() as client:
            with client.hold("kept", who) as held:
                # Longer than its ttl. A busy machine may stop for two thirds of that.
                time.sleep(9)
                self.assertFalse(held.lost.is_set())
                self.assertFalse(client.hold("kept", who))
            again = client.hold("kept", who)
            self.assertTrue(again)
            again.release()
            again.release()
            self.assertEqual(client.peek("kept", who).remaining, 1)

    def test_a_closed_client_renews_nothing_and_tells_that_the_slots_are_lost(self) -> None:
        client = client_of()
        held = client.hold("brief", somebody())
        client.close()
        self.assertTrue(held.lost.wait(60))


if __name__ == "__main__":
    unittest.main()
