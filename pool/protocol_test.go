package pool_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

// What other servers say, and Redis never.
var foreign = map[string]string{
	"HTTP":          "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
	"SSH":           "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
	"SMTP":          "220 mail.example.com ESMTP Postfix\r\n",
	"MySQL":         "J\x00\x00\x00\x0a8.0.36\x00\x08\x00\x00\x00\r\n",
	"TLS alert":     "\x15\x03\x01\x00\x02\x02\x28\r\n",
	"bare newline":  "+OK\n",
	"empty line":    "\r\n",
	"no length":     "$\r\n",
	"odd length":    "$x\r\n",
	"odd number":    ":x\r\n",
	"no number":     ":\r\n",
	"RESP3 null":    "_\r\n",
	"bulk overrun":  "$1\r\nxyz\r\n",
	"array of junk": "*1\r\n?\r\n",
}

func TestAServerOfAnotherKindIsNotConnectedToAndNamedAsSuch(t *testing.T) {
	for name, greeting := range foreign {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(*peer, []string) string { return greeting })
			reply := ask(t, f.open(t, patient()), pool.Acquire("key", "token", ttl))
			requireReply(t, pool.Unsent, pool.ErrProtocol, reply)
			require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
		})
	}
}

func TestAServerThatTalksFirstIsNotTakenForRedis(t *testing.T) {
	node := open(t, "redis://fake", patient(), pool.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			_, _ = io.WriteString(ours, foreign["SSH"])
		}()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		return theirs, nil
	}))
	requireReply(t, pool.Unsent, pool.ErrProtocol, ask(t, node, pool.Acquire("key", "token", ttl)))
}

func TestASilentServerIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t, func(*peer, []string) string { return "" }).open(t)
		requireReply(t, pool.Unsent, pool.ErrTimeout, ask(t, node, pool.Acquire("key", "token", ttl)))
		synctest.Wait()
		reply := ask(t, node, pool.Acquire("key", "token", ttl))
		requireReply(t, pool.Unsent, pool.ErrTimeout, reply)
		require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
	})
}

func TestNonsenseInPlaceOfAnAnswerIsMaybeAndCostsTheConnection(t *testing.T) {
	for wire, open := range wires {
		for name, nonsense := range foreign {
			t.Run(wire+"/"+name, func(t *testing.T) {
				f := newFake(t, func(c *peer, args []string) string {
					if args[0] == "SET" && c.number == 1 {
						return nonsense
					}
					return likeRedis(c, args)
				})
				node := open(f, t, patient())
				reply := ask(t, node, pool.Acquire("key", "token", ttl))
				requireReply(t, pool.Maybe, pool.ErrBroken, reply)
				require.ErrorIs(t, reply.Err, pool.ErrProtocol)
				requireYes(t, node, pool.Acquire("key", "token", ttl))
				require.Equal(t, 2, f.connections())
			})
		}
	}
}

func TestAConnectionThatEndsIsMaybeForWhatWasSentAndSaysHowItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, answering("SET", ""))
		reply := send(f.open(t), pool.Acquire("key", "token", ttl))
		synctest.Wait()
		require.NoError(t, f.peer(1).Close())
		lost := reply.next(t)
		requireReply(t, pool.Maybe, pool.ErrBroken, lost)
		require.ErrorIs(t, lost.Err, io.EOF)
	})
}

// Trap 6: what cannot be the answer to the command is neither yes nor no.
func TestAReplyThatDoesNotBelongToTheCommandIsMaybe(t *testing.T) {
	commands := map[string]*pool.Command{
		"SET":  pool.Acquire("key", "token", ttl),
		"EVAL": pool.Release("key", "token", ttl),
	}
	odd := map[string][]string{
		"SET": {"+ok\r\n", "+QUEUED\r\n", "+\r\n", ":1\r\n", ":0\r\n", "*0\r\n", "*1\r\n+OK\r\n", bulk("OK"), bulk("")},
		"EVAL": {"+OK\r\n", "+1\r\n", ":2\r\n", ":-2\r\n", "$-1\r\n", "*-1\r\n",
			"*0\r\n", "*1\r\n:1\r\n", "*2\r\n*1\r\n-ERR\r\n+x\r\n", bulk("1")},
	}
	for wire, open := range wires {
		for command, replies := range odd {
			for _, text := range replies {
				f := newFake(t, answering(command, text))
				node := open(f, t, patient())
				for range 2 {
					requireReply(t, pool.Maybe, pool.ErrProtocol, ask(t, node, commands[command]))
				}
				require.Equal(t, 1, f.connections(), "%s: the connection is in step after %q", wire, text)
			}
		}
	}
}

// What no Redis server sends is not read to its end, however long that may take or much it may hold.
func TestAReplyWithoutMeasureCostsTheConnection(t *testing.T) {
	for name, text := range map[string]string{
		"a long line":       "+" + strings.Repeat("x", 10_000) + "\r\n",
		"a huge bulk":       "$1000000000000\r\n",
		"a huge array":      "*1000000000000\r\n",
		"a deep array":      strings.Repeat("*1\r\n", 1000) + ":1\r\n",
		"a huge number":     ":18446744073709551617000\r\n",
		"a number with a +": ":+1\r\n",
		"a negative size":   "$-2\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			node := newFake(t, answering("EVAL", text)).open(t, patient())
			requireReply(t, pool.Maybe, pool.ErrProtocol, ask(t, node, pool.Release("key", "token", ttl)))
		})
	}
}

func TestAnOddReplyOfAnySizeMakesAShortError(t *testing.T) {
	for _, open := range wires {
		for _, text := range []string{bulk(strings.Repeat("x", 100_000)), "*3\r\n" + strings.Repeat(bulk(strings.Repeat("y", 1000)), 3)} {
			reply := ask(t, open(newFake(t, answering("SET", text)), t, patient()), pool.Acquire("key", "token", ttl))
			requireReply(t, pool.Maybe, pool.ErrProtocol, reply)
			require.Less(t, len(reply.Err.Error()), 200)
		}
	}
}

func TestAnErrorOfAnyLengthIsARefusal(t *testing.T) {
	for _, length := range []int{4090, 4096, 4100, 8192, 100_000} {
		for wire, open := range wires {
			f := newFake(t, answering("SET", "-NOPERM "+strings.Repeat("x", length)+"\r\n"))
			node := open(f, t, patient())
			for range 2 {
				reply := ask(t, node, pool.Acquire("key", "token", ttl))
				require.Equal(t, pool.Refused, reply.Answer, "%s: %.80v", wire, reply.Err)
				require.ErrorContains(t, reply.Err, "NOPERM x")
			}
			require.Equal(t, 1, f.connections())
		}
	}
}

// What a server says too much in its greeting is not passed over: the rest of it would be taken for answers.
func TestHalfAReplyTooManyInTheGreetingIsNotLost(t *testing.T) {
	for wire, open := range wires {
		node := open(newFake(t, func(c *peer, args []string) string {
			switch {
			case strings.Join(args, " ") == "CLIENT ID":
				return ":1\r\n*1\r\n"
			case args[0] == "SET":
				return "+OK\r\n$-1\r\n" // the rest of that, and then: the key is held
			}
			return likeRedis(c, args)
		}), t, patient())
		reply := ask(t, node, pool.Acquire("key", "token", ttl))
		require.Equal(t, pool.Maybe, reply.Answer, wire)
	}
}

// A reader that breaks off must not leave a writer behind that hangs.
func TestNonsenseEndsAWriteThatHangs(t *testing.T) {
	for wire, open := range wires {
		t.Run(wire, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f *fake
				f = newFake(t, func(c *peer, args []string) string {
					if c.number == 1 && args[0] == "SET" {
						pass(time.Millisecond) // the next command is being written meanwhile
						_, _ = io.WriteString(c, foreign["SSH"])
						<-f.end
					}
					return likeRedis(c, args)
				})
				node := open(f, t, patient(), pool.WithMaxOverdue(time.Hour))
				first := send(node, pool.Acquire("a", "token", ttl))
				synctest.Wait()
				second := send(node, pool.Acquire("b", "token", ttl))
				start := time.Now()
				requireReply(t, pool.Maybe, pool.ErrProtocol, first.next(t))
				requireReply(t, pool.Maybe, pool.ErrProtocol, second.next(t))
				requireYes(t, node, pool.Acquire("c", "token", ttl))
				require.Less(t, time.Since(start), time.Second)
			})
		})
	}
}

// A reply too many would be taken for the answer to the next command.
func TestAnAnswerToNoQuestionCostsTheConnectionAndIsNobodysAnswer(t *testing.T) {
	for _, open := range wires {
		f := newFake(t, nil)
		node := open(f, t, patient())
		for i := range 5 {
			requireYes(t, node, pool.Acquire("key", fmt.Sprint(i), ttl))
			connections := f.connections()
			_, _ = io.WriteString(f.peer(connections), ":0\r\n") // fails once the node has hung up
			require.Eventually(t, func() bool { return f.connections() > connections }, bound, tick)
		}
		requireYes(t, node, pool.Release("key", "token", ttl))
	}
}

func TestGreetingsOfTheWrongTypeAreAProtocolError(t *testing.T) {
	for _, command := range []string{"INFO server", "CLIENT ID"} {
		for _, text := range []string{"*1\r\n+OK\r\n", "*0\r\n"} {
			f := newFake(t, func(c *peer, args []string) string {
				if strings.Join(args, " ") == command {
					return text
				}
				return likeRedis(c, args)
			})
			reply := ask(t, f.open(t, patient()), pool.Acquire("key", "token", ttl))
			assert.Equal(t, pool.Unsent, reply.Answer)
			assert.ErrorIs(t, reply.Err, pool.ErrProtocol, "%s answered by %q", command, text)
		}
	}
}
