"""Processes that fork: a child shares no socket, no lock and no thread with its parent, and leaves the parent's holds alone."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import unittest
from typing import Callable

from gateway_under_test import async_client_of, client_of, somebody


def in_child(do: Callable[[], bool]) -> int:
    """Forks, and returns the exit status of the child: 0 if it did what it should."""
    child = os.fork()
    if child == 0:
        status = 1
        # A child that waits for a lock of a thread that it has not would wait for ever.
        signal.alarm(60)
        try:
            status = 0 if do() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Forks(unittest.TestCase):
    def test_a_child_asks_by_connections_of_its_own(self) -> None:
        who = somebody()
        with client_of() as client:
            client.check("many", who)
            kept = {connection.connection.fileno() for connection in client._connections._idle}
            self.assertEqual(len(kept), 1)

            def ask() -> bool:
                # The connections of the parent are closed here, and nothing was kept yet.
                own = client._connections
                return own._idle == [] and client.check("many", who).source == "gateway"

            self.assertEqual(in_child(ask), 0)
            # The parent's own still works, and is the same.
            self.assertEqual(client.check("many", who).source, "gateway")
            self.assertEqual({connection.connection.fileno() for connection in client._connections._idle}, kept)

    def test_a_child_of_a_busy_process_is_not_stuck(self) -> None:
        with client_of(max_in_flight=1) as client:
            going = True

            def ask() -> None:
                while going:
                    client.check("many", somebody())

            threads = [threading.Thread(target=ask) for _ in range(16)]
            for thread in threads:
                thread.start()
            # Locks are held, requests under way and calls in the queue at some of these moments.
            statuses = [in_child(lambda: client.check("many", somebody()).source == "gateway") for _ in range(20)]
            going = False
            for thread in threads:
                thread.join()
        self.assertEqual(statuses, [0] * 20)

    def test_a_child_forgets_what_the_parent_remembers(self) -> None:
        who = somebody()
        with client_of() as client:
            client.check("three", who, cost=3)
            client.check("three", who)
            self.assertEqual(client.check("three", who).source, "memory")
            self.assertEqual(in_child(lambda: client.check("three", who).source == "gateway"), 0)

    def test_a_hold_stays_with_the_process_that_took_it(self) -> None:
        who = somebody()
        with client_of() as client, client.hold("lasting", who) as held:

            def leave() -> bool:
                held.release()
                return client.check("many", who).source == "gateway"

            self.assertEqual(in_child(leave), 0)
            self.assertFalse(client.hold("lasting", who))

    def test_the_client_of_asyncio_begins_anew_in_a_child(self) -> None:
        client = async_client_of()

        async def ask() -> bool:
            return (await client.check("many", somebody())).source == "gateway"

        async def ask_and_fork() -> list[int]:
            self.assertTrue(await ask())
            statuses = [await asyncio.get_running_loop().run_in_executor(None, in_child, lambda: asyncio.run(ask()))]
            self.assertTrue(await ask())
            await client.close()
            return statuses

        self.assertEqual(asyncio.run(ask_and_fork()), [0])


if __name__ == "__main__":
    unittest.main()
