package node_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// requireNoContext fails the test if an error looks like the end of the caller's context.
func requireNoContext(t testing.TB, err error) {
	t.Helper()
	require.Error(t, err)
	require.NotErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// failingConn fails from a moment on.
type failingConn struct {
	net.Conn
	with atomic.Pointer[error]
}

func (c *failingConn) fail(err error) {
	c.with.Store(&err)
	_ = c.SetReadDeadline(time.Unix(1, 0))
}

func (c *failingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if with := c.with.Load(); err != nil && with != nil {
		err = *with
	}
	return n, err
}

// hangs is a dial that ends with its context, as the one of package net does.
func hangs(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
}

// errCause is what a program may look for in the error of its own dialer.
var errCause = errors.New("cause")

// The danger: an internal timeout, or an error of the program's own dialer, that is taken for the end of the caller's context.
func TestNode_NoErrorMatchesThatOfAContext(t *testing.T) {
	mute := func(t testing.TB) *fake { return newFake(t, func(*peer, []string) string { return "" }) }
	deadline := fmt.Errorf("tunnel: %w: %w", errCause, context.DeadlineExceeded)
	for name, test := range map[string]struct {
		open func(t *testing.T) *node.Node
		want error
	}{
		"dial, net's own": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			return open(t, "fake", patient(), withDialer(hangs))
		}},
		"dial, the bare context": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			return open(t, "fake", patient(), withDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		}},
		"dial, another timeout": {want: errCause, open: func(t *testing.T) *node.Node {
			return open(t, "fake", patient(), withDialer(func(context.Context, string, string) (net.Conn, error) { return nil, deadline }))
		}},
		"dial, another cancellation": {want: errCause, open: func(t *testing.T) *node.Node {
			return open(t, "fake", patient(), withDialer(func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.Join(errCause, &net.OpError{Op: "dial", Err: context.Canceled})
			}))
		}},
		"TLS handshake": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			return open(t, "fake", patient(), withTLS(&tls.Config{ServerName: "fake"}), withDialer(func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				return ours, nil
			}))
		}},
		"credentials": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			return newFake(t, nil).open(t, patient(), withCredentials(func(ctx context.Context) (string, string, error) {
				<-ctx.Done()
				return "", "", ctx.Err()
			}))
		}},
		"credentials, another timeout": {want: errCause, open: func(t *testing.T) *node.Node {
			return newFake(t, nil).open(t, patient(), withCredentials(func(context.Context) (string, string, error) { return "", "", deadline }))
		}},
		"greeting": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			return mute(t).open(t, patient())
		}},
		"greeting of a wrapped pool": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			return wrap(t, mute(t).pool(), patient())
		}},
		"wrapped pool that is exhausted": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			pool := newFake(t, nil).pool()
			pool.MaxActive, pool.Wait = 1, true
			taken := pool.Get()
			t.Cleanup(func() { _ = taken.Close() })
			return wrap(t, pool, patient())
		}},
		"dial of a wrapped pool": {want: errCause, open: func(t *testing.T) *node.Node {
			return wrap(t, &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) { return nil, deadline }}, patient())
		}},
		"first attempt to connect": {want: nodeerr.ErrTimeout, open: func(t *testing.T) *node.Node {
			return open(t, "fake", withDialer(hangs))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := test.open(t)
				seen := make(reports, 1000)
				n.Report(seen, 0)
				reply := ask(t, n, newAcquire("key", "token", ttl))
				if name != "first attempt to connect" { // whose command ends before it
					require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
				}
				require.ErrorIs(t, reply.Err, test.want)
				requireNoContext(t, reply.Err)
				requireNoContext(t, seen.next(t).Err)
				requireNoContext(t, ask(t, n, newAcquire("key", "token", ttl)).Err)
			})
		})
	}
}

// An I/O deadline is not the caller's: nobody but a dialer of the program sets any, and it keeps its meaning.
func TestNode_NoErrorOfABrokenConnectionMatchesThatOfAContext(t *testing.T) {
	for name, cause := range map[string]error{
		"deadline": context.DeadlineExceeded, "cancellation": &net.OpError{Op: "read", Err: context.Canceled},
		"I/O deadline": &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "end": io.ErrUnexpectedEOF,
	} {
		for transport, wrapped := range map[string]bool{"connects": false, "wrapped": true} {
			t.Run(name+", "+transport, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t, func(c *peer, args []string) string {
						if args[0] == "SET" {
							return ""
						}
						return likeRedis(c, args)
					})
					conns := make(chan *failingConn, 8)
					dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
						c := &failingConn{Conn: f.connect()}
						conns <- c
						return c, nil
					}
					n := open(t, "fake", patient(), withDialer(dial))
					if wrapped {
						n = wrap(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
							c, _ := dial(ctx, "", "")
							return redis.NewConn(c, 0, 0), nil
						}}, patient())
					}
					seen := make(reports, 1000)
					n.Report(seen, 0)
					replies := send(n, newAcquire("key", "token", ttl))
					require.True(t, seen.next(t).Up)
					synctest.Wait()
					(<-conns).fail(cause)
					reply := replies.next(t)
					require.ErrorIs(t, reply.Err, nodeerr.ErrBroken)
					requireNoContext(t, reply.Err)
					requireNoContext(t, seen.next(t).Err)
					if errors.Is(cause, os.ErrDeadlineExceeded) || errors.Is(cause, io.ErrUnexpectedEOF) {
						require.ErrorIs(t, reply.Err, cause)
					}
				})
			})
		}
	}
}

func TestNode_ThatIsClosedWhileItConnectsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("fake", withDialTimeout(time.Hour), withDialer(hangs))
		seen := make(reports, 1000)
		n.Report(seen, 0)
		replies := send(n, newRelease("key", "token", ttl))
		synctest.Wait()
		closeInTime(t, n)
		requireNoContext(t, replies.next(t).Err)
		for len(seen) > 0 {
			err := (<-seen).Err
			requireNoContext(t, err)
			require.ErrorIs(t, err, nodeerr.ErrClosed)
		}
	})
}
