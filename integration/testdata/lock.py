"""A lock over several Redis servers, written by docs/protocol.md alone.

It reads commands from its input, one a line, and prints an answer to each:

    acquire NAME TTL    "yes TOKEN" or "no"; the TTL is in milliseconds
    extend TTL          "yes" or "no"
    release             how many servers held the lock
    valid               for how many milliseconds the holder may rely on the lock; 0 if it may not

The arguments of the program are the addresses of the servers.
"""

import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis

TIMEOUT = 10  # seconds for each server; a program would take less than a tenth of the TTL

EXTEND = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 1"
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def now():
    """Milliseconds on a clock that nobody sets, and that goes on while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) * 1000


class Server:
    """One connection to a server, on which a release arrives behind its acquire."""

    def __init__(self, address):
        self.address = address
        self.connection = None

    def ask(self, *command):
        """Sends a command, and returns whether the server has said yes."""
        host, port = self.address.rsplit(":", 1)
        try:
            if self.connection is None:
                self.connection = redis.Redis(
                    host=host, port=int(port), socket_timeout=TIMEOUT, single_connection_client=True)
            return self.connection.execute_command(*command) in (1, True, b"OK")
        except redis.RedisError:
            return False  # perhaps the server has carried it out


class Locker:
    def __init__(self, addresses):
        self.servers = [Server(address) for address in addresses]
        self.majority = len(self.servers) // 2 + 1
        self.threads = ThreadPoolExecutor(len(self.servers))
        self.name = self.token = None
        self.deadline = 0

    def ask(self, *command):
        """Sends a command to every server at once, and returns how many have said yes."""
        return sum(self.threads.map(lambda server: server.ask(*command), self.servers))

    def acquire(self, name, ttl):
        token, start = secrets.token_hex(20), now()
        granted = self.ask("SET", name, token, "NX", "PX", ttl)
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
        extended = self.ask("EVAL", EXTEND, 1, self.name, self.token, ttl)
        if extended < self.majority or now() >= self.deadline:
            return False
        self.deadline = max(self.deadline, start + ttl - (ttl * 0.01 + 2))
        return True

    def release(self):
        self.deadline = 0
        return self.ask("EVAL", RELEASE, 1, self.name, self.token)

    def valid(self):
        return max(0, int(self.deadline - now()))


def main():
    locker = Locker(sys.argv[1:])
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
