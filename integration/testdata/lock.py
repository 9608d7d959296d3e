"""A lock over several Redis servers, written by docs/protocol.md alone.

It holds one lock at a time.

It reads commands from its input, one a line, and prints an answer to each:

    acquire NAME TTL    "yes TOKEN" or "no"; the TTL is in milliseconds
    extend TTL          "yes" or "no"
    release             how many servers held the lock
    valid               for how many milliseconds the holder may rely on the lock; 0 if it may not, or if it is lost

The arguments of the program are the restart guard of the Lockers in milliseconds, 0 for none, and the addresses of
the servers.
"""

import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

TIMEOUT = 10  # seconds for each server; a program would take less than a tenth of the TTL
STAMP_TTL = 60 * 24 * 3600 * 1000  # milliseconds

EXTEND = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 1"
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def now():
    """Milliseconds on a clock that nobody sets, and that goes on while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) * 1000


class Server:
    """One connection to a server, on which a release arrives behind its acquire.

    If the connection breaks, the release goes over the next one. A late acquire may then stay for its TTL.
    """

    def __init__(self, address):
        self.address = address
        self.connection = None

    def ask(self, *command):
        """Sends a command. Returns whether the server has said yes, and None if that is not known."""
        host, port = self.address.rsplit(":", 1)
        try:
            if self.connection is None:
                self.connection = redis.Redis(  # which sends nothing twice by itself
                    host=host, port=int(port), socket_timeout=TIMEOUT, single_connection_client=True,
                    retry=Retry(NoBackoff(), 0))
            return self.connection.execute_command(*command) in (1, True, b"OK")
        except redis.RedisError:
            return None  # perhaps the server has carried it out

    def votes(self, guard):
        """Returns whether the server has been in use for long enough, behind an acquire that it granted."""
        key = "quorumlock:since:" + self.address
        try:
            stamp, left = self.connection.get(key), self.connection.pttl(key)
            server, replication = self.connection.info("server"), self.connection.info("replication")
        except redis.RedisError:
            return False
        identity = "%s:%s" % (server["run_id"], replication["master_replid"])
        return stamp == identity.encode() and 0 < left <= STAMP_TTL - 1.01 * guard


class Locker:
    def __init__(self, guard, addresses):
        self.guard = guard
        self.servers = [Server(address) for address in addresses]
        self.majority = len(self.servers) // 2 + 1
        self.threads = ThreadPoolExecutor(len(self.servers))
        self.name = self.token = None
        self.deadline = 0

    def ask(self, *command):
        """Sends a command to every server at once, and returns how many have said yes, and no."""
        return self.count(lambda server: server.ask(*command))

    def count(self, question):
        answers = list(self.threads.map(question, self.servers))
        return answers.count(True), answers.count(False)

    def acquire(self, name, ttl):
        if self.valid():
            raise RuntimeError("release the first lock before")
        if self.guard and ttl > self.guard:
            raise ValueError("the TTL is longer than the restart guard")
        token, start = secrets.token_hex(20), now()

        def grants(server):
            return server.ask("SET", name, token, "NX", "PX", ttl) and (not self.guard or server.votes(self.guard))

        granted, _ = self.count(grants)
        deadline = start + ttl - (ttl * 0.01 + 2)
        if granted < self.majority or now() >= deadline:
            self.ask("EVAL", RELEASE, 1, name, token)
            return False
        self.name, self.token, self.deadline = name, token, deadline
        return True

    def extend(self, ttl):
        if not self.valid():
            return False
        start = now()
        extended, gone = self.ask("EVAL", EXTEND, 1, self.name, self.token, ttl)
        if len(self.servers) - gone < self.majority:
            self.deadline = 0  # the lock is lost
        if extended < self.majority or now() >= self.deadline:
            return False
        self.deadline = max(self.deadline, start + ttl - (ttl * 0.01 + 2))
        return True

    def release(self):
        self.deadline = 0
        held, _ = self.ask("EVAL", RELEASE, 1, self.name, self.token)
        return held

    def valid(self):
        return max(0, int(self.deadline - now()))


def main():
    locker = Locker(int(sys.argv[1]), sys.argv[2:])
    for line in sys.stdin:
        command, *args = line.split()
        if command == "acquire":
            answer = "yes " + locker.token if locker.acquire(args[0], int(args[1])) else "no"
        elif command == "extend":
            answer = "yes" if locker.extend(int(args[0])) else "no"
        elif command == "release":
            answer = locker.release()
        elif command == "valid":
            answer = locker.valid()
        else:
            raise ValueError(line)
        print(answer, flush=True)


main()
