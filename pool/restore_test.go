package pool_test

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

// Trap 8: a restore that takes effect late cuts a lease short that was extended meanwhile. Its answer
// therefore waits until that cannot happen any more.

// unanswered makes a fake whose first connection answers no script.
func unanswered(t testing.TB, more func(c *peer, args []string) (string, bool)) *fake {
	return newFake(t, func(c *peer, args []string) string {
		if isScript(args) && c.number == 1 {
			return ""
		}
		if reply, ok := more(c, args); ok {
			return reply
		}
		return likeRedis(c, args)
	})
}

func nothingMore(*peer, []string) (string, bool) { return "", false }

func TestARestoreThatIsAnsweredLateIsToldLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := unanswered(t, nothingMore)
		node := f.open(t, pool.WithMaxOverdue(time.Hour))
		for _, answer := range []string{":1\r\n", ":0\r\n"} {
			restored := send(node, pool.Restore("key", "token", ttl))
			pass(59 * time.Second) // not when a ping is due
			require.Empty(t, restored, "it may take effect yet")
			requireReply(t, pool.Unsent, pool.ErrSuspended, ask(t, node, pool.Extend("key", "token", ttl)))
			_, err := io.WriteString(f.peer(1), answer)
			require.NoError(t, err)
			require.Equal(t, answer == ":1\r\n", restored.next(t).Answer == pool.Yes)
			require.Empty(t, restored, "told twice")
		}
		require.Equal(t, 1, f.connections())
	})
}

func TestARestoreWhoseConnectionBrokeIsToldWhatTheNextConnectionKnows(t *testing.T) {
	refuse := func(command, reply string) func(*peer, []string) (string, bool) {
		return func(_ *peer, args []string) (string, bool) {
			if args[0] == command || len(args) > 1 && args[0]+" "+args[1] == command {
				return reply, true
			}
			return "", false
		}
	}
	for name, test := range map[string]struct {
		answer pool.Answer
		more   func(*peer, []string) (string, bool)
	}{
		"it was ended":           {pool.No, nothingMore},
		"it had ended":           {pool.No, refuse("CLIENT KILL", ":0\r\n")},
		"it may not be ended":    {pool.Maybe, refuse("CLIENT KILL", "-NOPERM no permissions\r\n")},
		"it has no number":       {pool.Maybe, refuse("CLIENT ID", "-ERR unknown subcommand\r\n")},
		"the server has no name": {pool.Maybe, refuse("INFO", "-NOPERM no permissions\r\n")},
		"another server has come": {pool.Maybe, func(c *peer, args []string) (string, bool) {
			return bulk(fmt.Sprintf("run_id:%d\r\n", c.number)), args[0] == "INFO"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := unanswered(t, test.more)
				b := &breakable{fake: f}
				node := open(t, "redis://fake", pool.WithDialer(b.dial))
				restored := send(node, pool.Restore("key", "token", ttl))
				synctest.Wait()
				b.breakNetwork()
				pass(time.Minute)
				require.Empty(t, restored, "it may take effect yet")
				b.down.Store(false)
				requireReply(t, test.answer, pool.ErrBroken, restored.next(t))
				synctest.Wait()
				requireYes(t, node, pool.Extend("key", "token", ttl))
				require.Empty(t, restored, "told twice")
			})
		})
	}
}

func TestARestoreThatNobodyWillKnowOfIsToldAtClose(t *testing.T) {
	for name, broken := range map[string]bool{"while it is under way": false, "while there is no connection": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &breakable{fake: unanswered(t, nothingMore)}
				nodes, err := pool.Open([]string{"redis://fake"}, pool.WithDialer(b.dial), pool.WithMaxOverdue(time.Hour))
				require.NoError(t, err)
				restored := send(nodes[0], pool.Restore("key", "token", ttl))
				synctest.Wait()
				if broken {
					b.breakNetwork()
				}
				pass(time.Minute)
				require.NoError(t, nodes[0].Close())
				require.Len(t, restored, 1)
				requireReply(t, pool.Maybe, pool.ErrBroken, restored.next(t))
			})
		})
	}
}

func TestARestoreIsNotTakenOnWhereThereIsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &breakable{fake: newFake(t, nil)}
		b.down.Store(true)
		node := open(t, "redis://fake", pool.WithDialer(b.dial))
		for range 3 {
			start := time.Now()
			requireReply(t, pool.Unsent, errDown, ask(t, node, pool.Restore("key", "token", ttl)))
			require.Zero(t, time.Since(start))
			pass(time.Second)
		}
	})
}
