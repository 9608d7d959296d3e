package testredis

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/form"
)

// Listen calls serve for each connection to a port of this machine. When the test ends, it closes the connections and waits until serve
// has returned.
func Listen(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			serving.Go(func() {
				defer c.Close()
				defer stop()
				serve(c)
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		end()
		serving.Wait()
	})
	return l.Addr().String()
}

// Answer plays a server on one connection: it writes the reply that answer returns for each command, in the form of the protocol. After ""
// it writes nothing for good, as replies come in the order of their commands. It returns nil when answer wants no further command, and
// otherwise the error that ended the connection.
func Answer(c net.Conn, answer func(words []string) (reply string, more bool)) error {
	commands := redis.NewConn(c, 0, 0) // a command has the form of an array reply
	for silent := false; ; {
		words, err := redis.Strings(commands.Receive())
		if err != nil {
			return err
		}
		reply, more := answer(words)
		if silent = silent || reply == ""; !silent {
			if _, err := io.WriteString(c, reply); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// Bulk returns a text in the form of the protocol.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// Proven returns a command in the form that it has once its connection has proven what it may do, for servers that a test plays itself.
func Proven(words []string) []string {
	if len(words) < 4 || words[0] != "EVAL" && words[0] != "EVALSHA" {
		return words
	}
	for name, script := range form.Scripts {
		of, proves := strings.CutPrefix(name, "first_")
		switch {
		case !proves || words[1] != script.Source && words[1] != script.Hash:
		case of == "acquire":
			return append([]string{"SET"}, words[3:]...)
		default:
			return append(form.Scripts[of].Run(nil, words[0] == "EVAL"), words[2:]...)
		}
	}
	return words
}
