package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestRefusal_HasTheCodeOfTheServer(t *testing.T) {
	acquire, release, extend := newAcquire("key", "token", ttl), newRelease("ours", "token", ttl), newExtend("ours", "token", 2*ttl)
	recreate := newExtend("key", "token", ttl)
	becomes := func(cmd string, args ...any) func(*testing.T, *testredis.Process) {
		return func(t *testing.T, server *testredis.Process) { do(t, server, cmd, args...) }
	}
	for code, tt := range map[string]struct {
		args          []string
		trouble       func(t *testing.T, server *testredis.Process) // after the key ours was set
		refuses, does []*wire.Command
	}{
		"READONLY":    {trouble: becomes("REPLICAOF", "127.0.0.1", 1), refuses: []*wire.Command{acquire}}, // which ends the connection
		"MASTERDOWN":  {[]string{"--replica-serve-stale-data", "no"}, becomes("REPLICAOF", "127.0.0.1", 1), []*wire.Command{release}, nil},
		"OOM":         {nil, becomes("CONFIG", "SET", "maxmemory", 1), []*wire.Command{acquire, recreate}, []*wire.Command{extend, release}},
		"NOREPLICAS":  {trouble: becomes("CONFIG", "SET", "min-replicas-to-write", 1), refuses: []*wire.Command{acquire, release}},
		"CLUSTERDOWN": {args: []string{"--cluster-enabled", "yes"}, refuses: []*wire.Command{acquire, release}},
		"MISCONF": {[]string{"--dbfilename", "in-the-way"}, func(t *testing.T, server *testredis.Process) {
			require.NoError(t, os.MkdirAll(filepath.Join(server.Dir(), "in-the-way", "not-empty"), 0o700))
			do(t, server, "CONFIG", "SET", "save", "3600 1")
			do(t, server, "BGSAVE")
			require.Eventually(t, func() bool { return testredis.Info(t, server, "persistence", "rdb_last_bgsave_status") == "err" }, bound, tick)
		}, []*wire.Command{acquire, release}, nil},
	} {
		t.Run(code, func(t *testing.T) {
			server, n := openReal(t, tt.args...)
			if tt.trouble != nil {
				requireYes(t, n, newAcquire("ours", "token", ttl))
				tt.trouble(t, server)
			}
			for _, cmd := range tt.refuses {
				requireRefused(t, ask(t, n, cmd), code)
			}
			for _, cmd := range tt.does {
				requireYes(t, n, cmd)
			}
		})
	}
}

func TestRefusal_OfAServerBlockedByAScriptUntilItIsBack(t *testing.T) {
	server, n := openReal(t, "--lua-time-limit", "1")
	late := open(t, server.Addr(), patient())
	requireYes(t, n, newAcquire("ours", "token", ttl))

	ended := make(chan error, 1)
	go func() {
		_, err := server.Do("EVAL", "while true do end", 0)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		_, err := server.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, bound, tick)
	requireRefused(t, ask(t, n, newAcquire("key", "token", ttl)), "BUSY")
	requireRefused(t, ask(t, n, newRelease("ours", "token", ttl)), "BUSY")
	// A connection made now could not report its server: there is none until it can.
	requireUnconnected(t, ask(t, late, newAcquire("key", "token", ttl)), "BUSY")

	do(t, server, "SCRIPT", "KILL")
	require.ErrorContains(t, <-ended, "killed")
	requireYes(t, n, newRelease("ours", "token", ttl))
	require.Eventually(t, func() bool {
		reply := ask(t, late, newAcquire("key", "token", ttl))
		return reply.Answer == quorum.Yes && reply.Server != ""
	}, bound, tick)
}

func TestRefusal_OfAServerWithoutRoomForOneMoreClient(t *testing.T) {
	server := testredis.Real(t, 1, "--maxclients", "1")[0]
	only := open(t, server.Addr(), patient())
	requireBack(t, only) // the connections that looked whether the server is up have gone
	reply := ask(t, open(t, server.Addr(), patient()), newAcquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.ErrorContains(t, reply.Err, "max number of clients")
}

// requireNoContext fails the test if an error looks like the end of the caller's context.
func requireNoContext(t testing.TB, err error) {
	t.Helper()
	require.Error(t, err)
	require.NotErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// The danger: an internal timeout, or an error of the program's own dialer, that is taken for the end of the caller's context.
func TestNode_NoErrorMatchesThatOfAContext(t *testing.T) {
	cause := errors.New("cause") // which a program may look for in the error of its own dialer
	deadline := fmt.Errorf("tunnel: %w: %w", cause, context.DeadlineExceeded)
	stages := maps.Clone(hanging)
	stages["another timeout"] = dialing(failing(deadline))
	stages["another cancellation"] = dialing(failing(errors.Join(cause, &net.OpError{Op: "dial", Err: context.Canceled})))
	stages["another timeout of the credentials"] = func(t testing.TB, opts ...option) *node.Node {
		opts = append(opts, withCredentials(func(context.Context) (string, string, error) { return "", "", deadline }))
		return newFake(t, nil).open(t, opts...)
	}
	stages["another timeout of a wrapped pool"] = func(t testing.TB, opts ...option) *node.Node {
		return wrap(t, &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) { return nil, deadline }}, opts...)
	}
	for name, open := range stages {
		bubble(t, name, func(t *testing.T) {
			want := nodeerr.ErrTimeout
			if strings.HasPrefix(name, "another") {
				want = cause
			}
			n := open(t, patient())
			seen := make(reports, 1000)
			n.Report(seen, 0)
			reply := ask(t, n, newAcquire("key", "token", ttl))
			requireReply(t, quorum.Unsent, want, reply)
			require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
			requireNoContext(t, reply.Err)
			requireNoContext(t, seen.next(t).Err)
			requireNoContext(t, ask(t, n, newAcquire("key", "token", ttl)).Err)
		})
	}
}

// An I/O deadline is not the caller's: nobody but a dialer of the program sets any, and it keeps its meaning.
func TestNode_NoErrorOfABrokenConnectionMatchesThatOfAContext(t *testing.T) {
	for name, cause := range map[string]error{
		"deadline": context.DeadlineExceeded, "cancellation": &net.OpError{Op: "read", Err: context.Canceled},
		"I/O deadline": &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "end": io.EOF,
	} {
		for transport, open := range transports {
			bubble(t, name+", "+transport, func(t *testing.T) {
				f := silentOn(t, "SET")
				f.fails = cause
				n := open(f, t, patient())
				seen := make(reports, 1000)
				n.Report(seen, 0)
				replies := send(n, newAcquire("key", "token", ttl))
				require.True(t, seen.next(t).Up)
				synctest.Wait()
				require.NoError(t, f.peer(1).Close())
				reply := replies.next(t)
				requireReply(t, quorum.Unknown, nodeerr.ErrBroken, reply)
				requireNoContext(t, reply.Err)
				requireNoContext(t, seen.next(t).Err)
				if errors.Is(cause, os.ErrDeadlineExceeded) || errors.Is(cause, io.EOF) {
					require.ErrorIs(t, reply.Err, cause)
				}
			})
		}
	}
}

// The danger: an error text that is another one each time, because it has the port of this side.
func TestNode_NoErrorNamesThePortOfThisSide(t *testing.T) {
	for name, unanswered := range map[string]func(t *testing.T) error{
		"a connection that is reset": func(t *testing.T) error {
			server, n := openReal(t)
			requireYes(t, n, newAcquire("key", "token", ttl))
			server.Freeze() // so that a command is under way
			waiting := send(n, newAcquire("other", "token", ttl))
			server.Stop()
			return waiting.next(t).Err
		},
		"a greeting without an answer": func(t *testing.T) error {
			server := testredis.Real(t, 1)[0]
			server.Freeze()
			n := open(t, server.Addr(), patient(), withDialTimeout(100*time.Millisecond))
			err := ask(t, n, newAcquire("key", "token", ttl)).Err
			require.EqualError(t, err, "nodeerr: not connected: no answer in time")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := unanswered(t)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "->")
			require.NotContains(t, err.Error(), "closed network connection")
		})
	}
}
