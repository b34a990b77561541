"""The client of asyncio: calls that share requests, cancellations, event loops, holds, deadlines and connections."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import unittest
import warnings

from gateway_under_test import (
    ANSWER,
    ANSWERS_WITHOUT_LENGTH,
    ENDLESS_ANSWERS,
    HEADS_OF_NO_HTTP,
    SOCKET,
    TLS_URL,
    Listener,
    async_client_of,
    drip,
    of_the_authority,
    read_request,
    send,
    sends,
    somebody,
)
from sluice_client import ClosedError, Event, RefusedError


class SharedRequests(unittest.IsolatedAsyncioTestCase):
    async def test_many_tasks_share_requests(self) -> None:
        events: list[Event] = []
        async with async_client_of(on_event=events.append, remember_refusals=0) as client:
            who = somebody()
            decisions = await asyncio.gather(*(client.check("three", who) for _ in range(200)))
        self.assertEqual(sum(bool(decision) for decision in decisions), 3)
        self.assertEqual({event.source for event in events}, {"gateway"})
        self.assertEqual(max(event.batch for event in events), 50)

    async def test_a_thousand_calls_wait_in_line_at_once_without_a_thread(self) -> None:
        async with async_client_of(deadline=60.0) as client:
            decisions = await asyncio.gather(
                *(client.acquire("many", [f"{i}"], max_wait=1) for i in range(1000))
            )
        self.assertEqual({decision.source for decision in decisions}, {"gateway"})


class Cancellations(unittest.IsolatedAsyncioTestCase):
    async def test_a_call_that_is_cancelled_in_line_leaves_it_and_tells_no_event(self) -> None:
        who = somebody()
        events: list[Event] = []
        async with async_client_of(on_event=events.append) as client:
            await client.check("slow", who)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(client.acquire("slow", who, max_wait=60), 0.5)
            self.assertEqual([event.call for event in events], ["check"])
            decision = await client.acquire("slow", who, max_wait=12)
        self.assertTrue(decision)

    async def test_a_request_goes_on_for_the_others_and_ends_when_nobody_waits(self) -> None:
        bodies: list[bytes] = []
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def serve(connection: socket.socket) -> None:
            while True:
                body = read_request(connection)
                if body == b"":
                    loop.call_soon_threadsafe(ended.set)
                    return
                bodies.append(body)
                if b"first" in body:
                    time.sleep(0.3)
                if b"last" not in body:
                    send(connection, ANSWER if b"first" in body else ANSWER.replace(b"]", b',{"allowed":true}]'))

        with Listener(serve) as listener:
            async with async_client_of(url=listener.url, max_in_flight=1) as client:
                first = asyncio.create_task(client.check("p", ["first"]))
                await asyncio.sleep(0)
                stays, leaves = (asyncio.create_task(client.check("p", [name])) for name in ("stays", "leaves"))
                await first
                leaves.cancel()
                self.assertTrue(await stays)
                last = asyncio.create_task(client.check("p", ["last"]))
                while not any(b"last" in body for body in bodies):
                    await asyncio.sleep(0.01)
                last.cancel()
                # The connection ends, so that the gateway need not answer.
                await asyncio.wait_for(ended.wait(), 60)
                self.assertTrue(leaves.cancelled() and last.cancelled())
                self.assertEqual((await client.check("p", ["first"])).source, "gateway")

    async def test_a_release_goes_on_if_its_caller_is_cancelled(self) -> None:
        who = somebody()
        async with async_client_of() as client:
            held = await client.hold("lasting", who)
            releasing = asyncio.create_task(held.release())
            await asyncio.sleep(0)
            releasing.cancel()
            self.assertTrue(await client.hold("lasting", who, max_wait=20))


class Loops(unittest.TestCase):
    def test_a_client_may_be_used_by_one_loop_after_the_other(self) -> None:
        client = async_client_of()

        async def ask() -> str:
            return (await client.check("many", somebody())).source

        async def ask_and_close() -> str:
            async with client:
                return await ask()

        with warnings.catch_warnings():
            # The first loop ends with an open connection, which nobody can close after it.
            warnings.simplefilter("ignore", ResourceWarning)
            self.assertEqual([asyncio.run(ask()), asyncio.run(ask_and_close())], ["gateway", "gateway"])
            gc.collect()

    def test_two_open_loops_are_an_error(self) -> None:
        client = async_client_of()

        async def ask() -> str:
            return (await client.check("many", somebody())).source

        one = asyncio.new_event_loop()
        self.assertEqual(one.run_until_complete(ask()), "gateway")
        with self.assertRaisesRegex(RuntimeError, "another event loop that is still open"):
            asyncio.run(ask())
        one.run_until_complete(client.close())
        # The transport of a connection ends in the next round of its loop.
        one.run_until_complete(asyncio.sleep(0))
        one.close()


class HoldsOfTasks(unittest.IsolatedAsyncioTestCase):
    async def test_a_hold_is_renewed_while_its_block_runs_and_free_after_it(self) -> None:
        who = somebody()
        async with async_client_of() as client:
            async with await client.hold("kept", who) as held:
                # Longer than its ttl. A busy machine may stop for two thirds of that.
                await asyncio.sleep(9)
                self.assertFalse(held.lost.is_set())
                second = await client.hold("kept", who)
                with self.assertRaises(RefusedError):
                    async with second:
                        self.fail("the block has run without a slot")
            self.assertEqual((await client.peek("kept", who)).remaining, 1)

    async def test_a_closed_client_renews_nothing_and_tells_that_the_slots_are_lost(self) -> None:
        client = async_client_of()
        held = await client.hold("brief", somebody())
        await client.close()
        await asyncio.wait_for(held.lost.wait(), 60)
        with self.assertRaises(ClosedError):
            await client.check("many", somebody())


class ConnectionsOfTasks(unittest.IsolatedAsyncioTestCase):
    async def test_an_answer_that_comes_byte_by_byte_is_cut_at_the_deadline(self) -> None:
        with Listener(drip) as listener:
            async with async_client_of(url=listener.url, deadline=0.3) as client:
                began = time.monotonic()
                decision = await client.peek("p")
                self.assertIn("within the deadline", decision.failure or "")
                self.assertTrue(0.29 < time.monotonic() - began < 30)

    async def test_an_answer_in_chunks_is_read_and_one_without_a_length_too(self) -> None:
        for serve in ANSWERS_WITHOUT_LENGTH:
            with self.subTest(serve), Listener(serve) as listener:
                async with async_client_of(url=listener.url) as client:
                    self.assertEqual((await client.check("p")).remaining, 9)

    async def test_rubbish_in_the_place_of_chunks_is_a_failure(self) -> None:
        for size in (b"rubbish", b"-5", b"", b"zz;", b"ffffffffffff"):

            def serve(connection: socket.socket, size: bytes = size) -> None:
                read_request(connection)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\nxxxxx\r\n")

            with self.subTest(size), Listener(serve) as listener:
                async with async_client_of(url=listener.url) as client:
                    self.assertEqual((await client.check("p")).source, "failure")

    async def test_an_answer_whose_end_nobody_can_know_is_no_http_and_ends_the_connection(self) -> None:
        for head in HEADS_OF_NO_HTTP:
            left = threading.Event()
            with self.subTest(head[:60]), Listener(sends(head, left)) as listener:
                async with async_client_of(url=listener.url) as client:
                    self.assertRegex((await client.check("p")).failure or "", "^The gateway did not answer: ")
                    self.assertTrue(await asyncio.to_thread(left.wait, 60))

    async def test_what_follows_an_answer_is_not_taken_for_the_next_one(self) -> None:
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
        forged = answer.replace(b'"remaining":9', b'"remaining":5')

        def serve(connection: socket.socket) -> None:
            while read_request(connection):
                connection.sendall(answer + forged)

        with Listener(serve) as listener:
            async with async_client_of(url=listener.url) as client:
                self.assertEqual([(await client.check("p")).remaining for _ in range(3)], [9, 9, 9])

    async def test_an_endless_answer_is_left_after_a_mebibyte(self) -> None:
        for serve in ENDLESS_ANSWERS:
            with self.subTest(serve), Listener(serve) as listener:
                async with async_client_of(url=listener.url) as client:
                    decision = await client.check("p")
                    self.assertEqual(decision.failure, "The gateway's answer is larger than 1048576 bytes.")

    async def test_it_asks_by_tls_and_by_a_unix_socket_and_trusts_nobody_else(self) -> None:
        for options in ({"url": TLS_URL, "tls": of_the_authority()}, {"url": f"unix:{SOCKET}"}):
            async with async_client_of(**options) as client:
                self.assertEqual((await client.check("many", somebody())).source, "gateway")
        async with async_client_of(url="http://a..b:1") as client:
            self.assertEqual((await client.check("p")).source, "failure")
        async with async_client_of(url=TLS_URL) as client:
            decision = await client.check("many", somebody())
            self.assertIn("CERTIFICATE_VERIFY_FAILED", decision.failure or "")


if __name__ == "__main__":
    unittest.main()
