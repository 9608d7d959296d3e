package rueidisnodes_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/adapters/internal/clientoption"
	"github.com/quorumlock/quorumlock/adapters/internal/clustertest"
	"github.com/quorumlock/quorumlock/adapters/internal/nodes"
	"github.com/quorumlock/quorumlock/adapters/rueidisnodes"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// bound is how long a test waits for what has to happen: far above what it takes.
	bound = 20 * time.Second
	tick  = 10 * time.Millisecond
)

// open makes a Locker over nodes of the options. All of it ends with the test.
func open(t *testing.T, guard time.Duration, servers ...rueidis.ClientOption) *redlock.Locker {
	t.Helper()
	made, err := rueidisnodes.Open(servers, pool.WithRestartGuard(guard), pool.WithDialTimeout(bound))
	require.NoError(t, err)
	locker, err := redlock.New(made, redlock.TTL(guard))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, locker.Close())
		for _, n := range made {
			assert.NoError(t, n.Close())
		}
	})
	return locker
}

// requireHeld waits until clients of rueidis find the token of a lock where their options lead.
func requireHeld(t *testing.T, lock *redlock.Lock, servers ...rueidis.ClientOption) {
	t.Helper()
	for i, o := range servers {
		client, err := rueidis.NewClient(o)
		require.NoError(t, err)
		require.Eventually(t, func() bool { // beyond the majority the answers come later
			text, err := client.Do(t.Context(), client.B().Get().Key("name").Build()).ToString()
			require.True(t, err == nil || rueidis.IsRedisNil(err), err)
			return text == string(lock.Token())
		}, bound, tick, "options %d", i)
		client.Close()
	}
}

// requireNamed waits until a server has a connection of that name.
func requireNamed(t *testing.T, p *testredis.Process, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		clients, err := p.Do("CLIENT", "LIST")
		return err == nil && strings.Contains(string(clients.([]byte)), " name="+name+" ")
	}, bound, tick, name)
}

func TestOpen_TheNodesAreWhereTheClientConnectsTo(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 4, "--unixsocket", "redis.sock")
	_, err := servers[1].Do("ACL", "SETUSER", "locker", "reset", "on", ">secret", "~*", "&*", "+@all")
	require.NoError(t, err)
	socket, err := rueidis.ParseURL("unix://" + filepath.Join(servers[3].Dir(), "redis.sock") + "?db=1&client_name=biller-3")
	require.NoError(t, err)
	options := []rueidis.ClientOption{
		{InitAddress: []string{servers[0].Addr()}, Username: "default", SelectDB: 3, ClientName: "biller-0"},
		{InitAddress: []string{servers[1].Addr()}, ClientName: "biller-1", AuthCredentialsFn: func(with rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			if with.Address.String() != servers[1].Addr() {
				return rueidis.AuthCredentials{}, errors.New("asked for " + with.Address.String())
			}
			return rueidis.AuthCredentials{Username: "locker", Password: "secret"}, nil
		}},
		rueidis.MustParseURL("redis://" + servers[2].Addr() + "/2?client_name=biller-2"),
		socket,
	}
	locker := open(t, time.Second, options...)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	lock, err := locker.Lock(ctx, "name", redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)
	for i, o := range options {
		requireNamed(t, servers[i], o.ClientName)
	}
	requireHeld(t, lock, options...)
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestOpen_ALockIsHeldByTheGroupsOverAFailover(t *testing.T) {
	t.Parallel()
	sentinels := testredis.SentinelSetup{
		Args: []string{"--requirepass", "secret", "--masterauth", "secret"}, Password: "of sentinels",
	}.New(t, "a", "b", "c")
	groups := make([]rueidis.ClientOption, 3)
	for i, name := range []string{"a", "b", "c"} {
		groups[i] = rueidis.ClientOption{InitAddress: sentinels.Addrs(), Password: "secret", SelectDB: 3, ClientName: "biller-" + name, ShuffleInit: i == 1}
		groups[i].Sentinel.MasterSet, groups[i].Sentinel.Password = name, "of sentinels"
	}
	locker := open(t, 2*time.Second, groups...)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	lock, err := locker.Lock(ctx, "name", redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)
	for _, o := range groups {
		requireNamed(t, sentinels.Group(o.Sentinel.MasterSet).Primary(), o.ClientName)
	}
	requireHeld(t, lock, groups...)

	sentinels.Group("a").FailOver()
	requireNamed(t, sentinels.Group("a").Primary(), "biller-a")
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestOpen_TLSIsThatOfTheOptions(t *testing.T) {
	t.Parallel()
	with := httptest.NewTLSServer(nil) // which is no Redis server
	defer with.Close()
	_, err := open(t, time.Second, rueidis.ClientOption{InitAddress: []string{with.Listener.Addr().String()}, TLSConfig: with.Client().Transport.(*http.Transport).TLSClientConfig}).
		TryLock(t.Context(), "name")
	require.ErrorContains(t, err, "HTTP", "the answer came over TLS")
}

func TestOpen_RefusesSeveralAddressesAndGroupsWithoutARestartGuard(t *testing.T) {
	t.Parallel()
	several := rueidis.ClientOption{InitAddress: []string{"a:1", "b:1"}}
	_, err := rueidisnodes.Open([]rueidis.ClientOption{several})
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, "rueidisnodes: options 0: InitAddress: has 2 addresses without a Sentinel.MasterSet: use OpenCluster")
	several.Sentinel.MasterSet = "mymaster"
	_, err = rueidisnodes.Open([]rueidis.ClientOption{several})
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, "rueidisnodes: pool: the servers of node 0 fail over")
	made, err := rueidisnodes.Open([]rueidis.ClientOption{several}, pool.WithRestartGuard(time.Minute))
	require.NoError(t, err)
	require.Equal(t, "mymaster@a:1", made[0].Addr())
}

// The danger: a field that a newer rueidis has, or that was forgotten, changes which servers are used, and nobody says so.
func TestFields_EachIsCarriedOverOrRefusedOrNamedAsOneWithoutEffect(t *testing.T) {
	t.Parallel()
	require.Empty(t, clientoption.Fields.Undecided(reflect.TypeFor[rueidis.ClientOption]()))
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	set := func(v reflect.Value) { // makes it other than zero
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int:
			v.SetInt(1)
		case reflect.String:
			v.SetString("a")
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Func:
			v.Set(reflect.MakeFunc(v.Type(), nil))
		default:
			t.Fatalf("a field of type %s", v.Type())
		}
	}
	open := map[string]func(rueidis.ClientOption) error{
		"options 0": func(o rueidis.ClientOption) error {
			_, err := rueidisnodes.Open([]rueidis.ClientOption{o})
			return err
		},
		"options": func(o rueidis.ClientOption) error {
			_, err := rueidisnodes.OpenCluster(o, 3)
			return err
		},
	}
	for which, fields := range map[string]nodes.Decisions{"options 0": clientoption.Fields, "options": clientoption.ClusterFields} {
		for name, decision := range fields {
			if decision == nodes.NoEffect {
				continue
			}
			group, field, inGroup := strings.Cut(name, ".")
			require.Regexp(t, `\b`+map[bool]string{false: group, true: field}[inGroup]+`\b`, string(doc))
			if decision == nodes.Carried {
				continue
			}
			o := rueidis.ClientOption{InitAddress: []string{"a:1"}}
			v := reflect.ValueOf(&o).Elem().FieldByName(group)
			if inGroup {
				v = v.FieldByName(field)
			}
			set(v)
			require.ErrorContains(t, open[which](o), "rueidisnodes: "+which+": "+name+": ")
		}
	}
}

func TestOpenCluster_TheNodesAreThoseOfTheURL(t *testing.T) {
	t.Parallel()
	clustertest.Run(t, func(addresses []string, opts ...pool.Option) ([]*pool.Node, error) {
		return rueidisnodes.OpenCluster(rueidis.ClientOption{
			InitAddress: addresses, ClientName: clustertest.ClientName, Username: "wrong", Password: "wrong",
			AuthCredentialsFn: func(with rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				if _, is := with.Address.(*net.TCPAddr); !is {
					return rueidis.AuthCredentials{}, errors.New("asked for " + with.Address.String())
				}
				return rueidis.AuthCredentials{Password: clustertest.Password}, nil
			},
		}, 3, opts...)
	})
}
