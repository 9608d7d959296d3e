package node_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// withTag makes a node of a cluster whose servers a test plays.
func withTag(c *node.Config) { c.Server.Tag = "{tag}" }

// recording is a fake that notes the messages that it was sent, without those of a greeting.
type recording struct {
	*heldFake
	mu   sync.Mutex
	sent [][]string
}

func newRecording(t *testing.T) *recording {
	r := &recording{}
	r.heldFake = newHeldFake(t, func(c *peer, args []string) string {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A reply that ends the connection leads to another greeting.
		greets := args[0] == "HELLO" || args[0] == "INFO" || args[0] == "CLIENT" && args[1] == "ID"
		if !greets {
			r.sent = append(r.sent, args)
		}
		if joined := joinedOf(args); joined > 0 {
			return allYes(joined)
		}
		return likeRedis(c, args)
	})
	r.raw = true
	return r
}

func (r *recording) messages() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

// requireTagged has a plain node and one with the tag do the same, and fails the test unless the keys are all that
// differs.
func requireTagged(t *testing.T, do func(r *recording, n *node.Node)) {
	t.Helper()
	plain, tagged := newRecording(t), newRecording(t)
	do(plain, plain.open(t, patient()))
	do(tagged, tagged.open(t, withTag, patient()))
	want := plain.messages()
	require.NotEmpty(t, want)
	for _, words := range want {
		for i, word := range words {
			if key := strings.TrimLeft(word, "{"); strings.HasPrefix(key, "key") || strings.HasPrefix(key, "beside") ||
				strings.HasPrefix(key, "name-") || key == "channel" || key == "nobody" {
				words[i] = "{tag}" + word
			}
		}
	}
	require.Equal(t, want, tagged.messages())
}

// The danger: a key without the tag is another one for the server, or belongs to another server.
func TestSlot_AllKeysBeginWithTheTag(t *testing.T) {
	commands := everyKind()
	id := form.ID{Key: "key", Token: "token"}
	for kind, shared := range map[string]form.Shared{"shared": {Kind: form.KindShared}, "slot": {Kind: form.KindSlot, Slots: 3}} {
		for name, make := range map[string]func(c *wire.Command){
			"acquire": func(c *wire.Command) { shared.Acquire(c, id, form.Ask{TTL: ttl}) },
			"extend":  func(c *wire.Command) { shared.Extend(c, id, ttl) },
			"release": func(c *wire.Command) { shared.Release(c, id, ttl) },
			"observe": func(c *wire.Command) { *c = *shared.Observe("key") },
			"heal":    func(c *wire.Command) { *c = *shared.Heal("key", "token") },
		} {
			commands[kind+" "+name] = &wire.Command{}
			make(commands[kind+" "+name])
		}
	}
	commands["want"] = form.Want("key", "process", form.Demand{})
	commands["unwant"] = form.Unwant("key", "process", form.Demand{})
	commands["probe"] = form.Probe("key", "id", true)
	for name, cmd := range commands {
		t.Run(name, func(t *testing.T) {
			requireTagged(t, func(_ *recording, n *node.Node) { ask(t, n, cmd) })
		})
	}
}

func TestSlot_TheKeysOfJoinedCommandsBeginWithTheTag(t *testing.T) {
	acquires, releases := several(5)
	proof := newAcquireFenced("key", "proof", ttl, at(1))
	requireTagged(t, func(r *recording, n *node.Node) {
		requireYes(t, n, proof)
		for _, cmds := range [][]*wire.Command{acquires, releases} {
			requireAllYes(t, r.gate.together(t, n, cmds))
		}
		require.True(t, slices.ContainsFunc(r.messages(), func(words []string) bool { return joinedOf(words) == 5 }))
	})
}

func TestSlot_TheChannelBeginsWithTheTag(t *testing.T) {
	requireTagged(t, func(r *recording, n *node.Node) {
		l := listen(n, "channel")
		l.await(t, "0 active")
		requireSent := func(words ...string) {
			require.Eventually(t, func() bool {
				return slices.ContainsFunc(r.messages(), func(sent []string) bool {
					return sent[0] == words[0] && strings.HasSuffix(sent[1], words[1])
				})
			}, bound, tick)
		}
		requireSent("SUBSCRIBE", "channel")
		attend(t, n, "beside")
		requireSent("SUBSCRIBE", "beside")
		n.Leave("beside")
		requireSent("UNSUBSCRIBE", "beside")
		n.Unlisten(l)
		requireSent("UNSUBSCRIBE", "channel")
		requireYes(t, n, newExtend("key", "token", ttl)) // the connection is still there
	})
}

func TestSlot_PushesArriveWithoutTheTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		n := f.open(t, withTag)
		l := listen(n, "channel")
		l.await(t, "0 active")
		synctest.Wait()
		f.send(t, 1, invalidation("{tag}key", "key", "{tag", "{other}key", "{tag}{key}:fence"))
		require.Equal(t, "0 invalidated key", l.next(t))
		require.Equal(t, "0 invalidated {key}:fence", l.next(t))
		f.send(t, 1, push("message", "{tag}channel")+testredis.Bulk("text"))
		require.Equal(t, "0 message text", l.next(t))
		attend(t, n, "beside")
		synctest.Wait()
		f.send(t, 1, push("message", "{tag}beside")+testredis.Bulk("text"))
		synctest.Wait()
		require.Empty(t, l)
		require.Equal(t, 1, f.connections())
	})
}

// The danger: MOVED for as long as the program runs.
func TestSlot_MOVEDEndsTheConnectionOfANodeOfACluster(t *testing.T) {
	for name, row := range map[string]struct {
		opts        []option
		connections int
		outlook     wire.Outlook
	}{
		"a node of a cluster": {[]option{withTag}, 2, wire.Passes},
		"a plain node":        {nil, 1, wire.Stays},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFake(t, atFirst(func(c *peer, args []string) string {
				if strings.Contains(strings.Join(args, " "), "moved") {
					return "-MOVED 1 10.0.0.1:6379\r\n"
				}
				return likeRedis(c, args)
			}))
			n := f.open(t, row.opts...)
			requireYes(t, n, newAcquire("held", "token", ttl))
			release := send(n, newRelease("moved", "token", ttl))
			refused := release.next(t)
			requireRefused(t, refused, "MOVED")
			require.Equal(t, row.outlook, wire.OutlookOf(refused.Err))
			synctest.Wait()
			require.Equal(t, row.connections, f.connections())
			require.Equal(t, row.connections-1, f.count("2 EVAL"), "what cleans up is not done, and goes to the next server")
		})
	}
}

func TestSlot_ARefusalThatPassesLeavesTheConnectionOpen(t *testing.T) {
	for _, refusal := range []string{"CLUSTERDOWN Hash slot not served", "TRYAGAIN Multiple keys request", "ASK 1 10.0.0.1:6379"} {
		f := newFake(t, answering("SET {tag}key", "-"+refusal+"\r\n"))
		n := f.open(t, withTag, patient())
		for range 3 {
			reply := ask(t, n, newAcquire("key", "token", ttl))
			code, _, _ := strings.Cut(refusal, " ")
			requireRefused(t, reply, code)
			require.NotContains(t, reply.Err.Error(), "independent")
			require.Contains(t, reply.Err.Error(), "cluster")
			require.Equal(t, wire.Passes, wire.OutlookOf(reply.Err))
		}
		require.Equal(t, 1, f.connections())
	}
}

// The danger: a failover, during which all servers refuse everything, leaves each released lock held for its TTL.
func TestSlot_AReleaseThatAClusterRefusesIsSentAgain(t *testing.T) {
	for name, row := range map[string]struct {
		opts []option
		sent int
		left bool
	}{
		"until it is carried out":           {[]option{withTag}, 11, false},
		"until it is pointless":             {[]option{withTag}, 11, true},
		"but not by a plain node":           {nil, 1, true},
		"once more when the node is closed": {[]option{withTag}, 2, true},
	} {
		bubble(t, name, func(t *testing.T) {
			var ready atomic.Bool
			f := newFake(t, func(c *peer, args []string) string {
				if isScript(args) && !ready.Load() {
					return "-CLUSTERDOWN The cluster is down\r\n"
				}
				return likeRedis(c, args)
			})
			n := f.open(t, row.opts...)
			reply := ask(t, n, newRelease("key", "token", time.Second))
			requireRefused(t, reply, "CLUSTERDOWN")
			require.Equal(t, row.opts != nil, wire.SentAgain(reply.Err))
			if name == "once more when the node is closed" {
				require.NoError(t, n.Close())
			}
			pass(950 * time.Millisecond)
			synctest.Wait()
			ready.Store(!row.left)
			pass(time.Hour)
			require.Equal(t, row.sent, f.count("EVAL"))
			require.NoError(t, n.Close())
			require.Equal(t, 1, f.connections())
		})
	}
}

// The danger: a server that lost the slot while nobody was connected is taken for the node.
func TestSlot_MOVEDInAnswerToTheStampRefusesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Hour)
		k.refusal = "MOVED 1 10.0.0.1:6379"
		n := k.open(t, withTag, withGuard(guard))
		requireUnconnected(t, ask(t, n, newAcquire("key", "token", time.Second)), "MOVED")
		k.mu.Lock()
		k.refusal = ""
		k.mu.Unlock()
		pass(2 * time.Second)
		requireYes(t, n, newAcquire("key", "token", time.Second))
		require.Equal(t, "{tag}"+wire.StampKey("fake"), k.key)

		k.send(t, k.connections(), invalidation("{tag}"+wire.StampKey("fake")))
		before := k.stamps()
		synctest.Wait()
		require.Equal(t, before+1, k.stamps(), "it is read again")
		requireYes(t, n, newAcquire("key", "token", time.Second))
	})
}
