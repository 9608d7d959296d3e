package pool_test

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// as returns the server's URL with a user and a password.
func as(server redistest.Server, user, password string) string {
	return strings.Replace(server.URL(), "//", "//"+url.UserPassword(user, password).String()+"@", 1)
}

func TestAServerWithAPassword(t *testing.T) {
	const secret = "pass:w/o?r#d@ %"
	server := redistest.Real(t, 1, "--requirepass", secret)[0]
	acquire := pool.Acquire("key", "token", ttl)
	requireYes(t, open(t, as(server, "", secret), patient()), acquire)
	requireYes(t, open(t, as(server, "default", secret), patient()), pool.Extend("key", "token", ttl))
	requireUnconnected(t, ask(t, open(t, server.URL(), patient()), acquire), "NOAUTH")
	for _, wrong := range []string{as(server, "", "wrong"), as(server, "nobody", secret)} {
		reply := ask(t, open(t, wrong, patient()), acquire)
		requireUnconnected(t, reply, "WRONGPASS")
		require.NotContains(t, reply.Err.Error(), "wrong@")
	}
}

func TestAServerWithoutAPasswordRefusesOne(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	reply := ask(t, open(t, as(server, "", "pw"), patient()), pool.Acquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.NotContains(t, reply.Err.Error(), "pw")
}

// A server repeats the arguments of commands that it does not know.
func TestAServerThatDoesNotKnowAuthDoesNotGetThePasswordIntoAnError(t *testing.T) {
	server := redistest.Real(t, 1, "--rename-command", "AUTH", "")[0]
	wrapped := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(as(server, "user", "hunter2")) }}
	for _, node := range []*pool.Node{open(t, as(server, "user", "hunter2"), patient()), wrap(t, wrapped, patient())} {
		reply := ask(t, node, pool.Acquire("key", "token", ttl))
		requireUnconnected(t, reply, "ERR")
		require.ErrorContains(t, reply.Err, "unknown command 'AUTH'")
		refusal := (*pool.ServerError)(nil)
		require.ErrorAs(t, reply.Err, &refusal)
		require.NotContains(t, refusal.Message, "hunter2")
		require.NotContains(t, reply.Err.Error(), "hunter2")
	}
}

func TestAnACLUserMayDoWhatItsRulesSay(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	do(t, server, "ACL", "SETUSER", "locker", "on", ">pw", "~lock:*", "+@all", "-set")
	node := open(t, as(server, "locker", "pw"), patient())
	requireRefused(t, ask(t, node, pool.Acquire("lock:key", "token", ttl)), "NOPERM")
	requireRefused(t, ask(t, node, pool.Extend("other:key", "token", ttl)), "NOPERM")
	do(t, server, "SET", "lock:key", "token")
	requireYes(t, node, pool.Release("lock:key", "token", ttl))
}

func TestCredentialsAreLookedUpForEveryConnection(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	var lookups atomic.Int32
	var current atomic.Value
	rotate := func(password string) {
		do(t, server, "ACL", "SETUSER", "locker", "on", "resetpass", ">"+password, "~*", "+@all")
		current.Store(password)
	}
	rotate("first")
	// What the URL says does not count.
	node := open(t, as(server, "nobody", "nothing"), patient(), pool.WithCredentials(func(ctx context.Context) (string, string, error) {
		lookups.Add(1)
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the lookup has no deadline")
		}
		return "locker", current.Load().(string), nil
	}))
	for i := range 3 {
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		requireYes(t, node, pool.Release("key", "token", ttl))
		require.EqualValues(t, i+1, lookups.Load())
		rotate(strings.Repeat("next", i+1)) // Redis keeps those connected who are logged in
		before := clients(t, server)
		do(t, server, "CLIENT", "KILL", "USER", "locker")
		require.Eventually(t, func() bool {
			now := clients(t, server)
			return len(now) == 1 && now[0] != before[0]
		}, bound, tick)
	}
}

func TestCredentialsThatCannotBeLookedUpFailTheConnection(t *testing.T) {
	errVault := errors.New("vault is sealed")
	f := newFake(t, nil)
	node := f.open(t, patient(), pool.WithCredentials(func(context.Context) (string, string, error) { return "", "", errVault }))
	reply := ask(t, node, pool.Acquire("key", "token", ttl))
	requireReply(t, pool.Unsent, errVault, reply)
	require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
	require.Zero(t, f.connections())
}

func TestADatabaseIsSelected(t *testing.T) {
	server := redistest.Real(t, 1, "--databases", "4")[0]
	requireYes(t, open(t, server.URL()+"/3", patient()), pool.Acquire("key", "token", ttl))
	require.Contains(t, string(do(t, server, "INFO", "keyspace").([]byte)), "db3:keys=1")
	reply := ask(t, open(t, server.URL()+"?db=4", patient()), pool.Acquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.ErrorContains(t, reply.Err, "DB index is out of range")
}

func TestAUnixSocketIsConnectedTo(t *testing.T) {
	server := redistest.Real(t, 1, "--unixsocket", "redis@1.sock", "--requirepass", "pw")[0]
	socket := filepath.Join(server.Dir(), "redis@1.sock")
	node := open(t, "unix://:pw@"+socket+"?db=2", patient())
	require.Equal(t, socket, node.Addr())
	requireYes(t, node, pool.Acquire("key", "token", ttl))
	require.Contains(t, string(do(t, server, "INFO", "keyspace").([]byte)), "db2:keys=1")
}

func TestConnectionsHaveTheirNameInTheClientList(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	requireYes(t, open(t, server.URL(), patient(), pool.WithClientName("locker-1")), pool.Acquire("key", "token", ttl))
	list, err := redis.String(do(t, server, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	require.Contains(t, list, " name=locker-1 ")
}
