package nodes_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/adapters/internal/nodes"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHost_IsThatOfPackagePoolForEachSpelling(t *testing.T) {
	for address, want := range map[string]string{
		"Host:06379": "host:6379", "[::FFFF:10.0.0.1]:1": "10.0.0.1:1", "[0:0::1]:7000": "[::1]:7000", "[fe80::1%eth0]:7000": "[fe80::1%eth0]:7000",
		"under_score.host.:1": "under_score.host.:1", "/run/Redis.sock": "/run/Redis.sock", "host": "address-686f7374:6379", "a b:1": "address-6120623a31:6379",
		"host:0": "address-686f73743a30:6379", ":6379": "address-3a36333739:6379",
	} {
		require.Equal(t, want, nodes.Host(address))
		made, err := nodes.Open([]*nodes.Server{{Address: address, DialTimeout: time.Second}}, []pool.Option{pool.WithName(func(int) string { return "x" })})
		require.NoError(t, err, address)
		require.Equal(t, "x", made[0].Addr())
		require.Equal(t, want, (*node.Node)(made[0]).Config().Server.Address)
	}
}

// The danger: programs give a server different names, by the place that it has in their options, and the restart guard of one says
// nothing to the others.
func TestOpen_TheStampHasTheAddressOfTheServer(t *testing.T) {
	servers := testredis.Real(t, 2)
	all := make([]*nodes.Server, 2)
	for i, s := range servers {
		all[1-i] = &nodes.Server{Address: s.Addr(), DialTimeout: 20 * time.Second, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}}
	}
	made, err := nodes.Open(all, []pool.Option{pool.WithRestartGuard(time.Second)})
	require.NoError(t, err)
	locker, err := redlock.New(made, redlock.TTL(time.Second))
	require.NoError(t, err)
	_ = locker.Ping(t.Context())
	for _, s := range servers {
		require.Eventually(t, func() bool {
			stamped, err := s.Do("EXISTS", testredis.Stamps+s.Addr())
			return err == nil && stamped == int64(1)
		}, 20*time.Second, 2*time.Millisecond)
	}
	require.NoError(t, locker.Close())
	for _, n := range made {
		require.NoError(t, n.Close())
	}
}

func TestOpen_TwoGroupsOfOneNameAndOtherSentinelsAreTwo(t *testing.T) {
	group := func(sentinels ...string) *nodes.Server {
		return &nodes.Server{Group: nodes.Group{Name: "mymaster", Sentinels: sentinels}, DialTimeout: time.Second}
	}
	opts := []pool.Option{pool.WithRestartGuard(time.Minute)}
	made, err := nodes.Open([]*nodes.Server{group("s1:1", "s2:1"), group("s3:1")}, opts)
	require.NoError(t, err)
	require.Equal(t, "mymaster@s1:1", made[0].Addr())
	require.Equal(t, "mymaster@s3:1", made[1].Addr())
	_, err = nodes.Open([]*nodes.Server{group("s1:1", "s2:1"), group("S2:1")}, opts)
	require.ErrorContains(t, err, `options 1: group "mymaster" of these sentinels is that of options 0 too`)
}

type options struct {
	Carried, Ignored, Refused int
	Whole, Parts              struct{ In, Out error }
	hidden, private           int
}

func TestDecisions_AFieldThatIsSetAndRefusedOrUnknownIsAnError(t *testing.T) {
	d := nodes.Decisions{
		"Carried": nodes.Carried, "Ignored": nodes.NoEffect, "Refused": "no use", "hidden": "private", "Whole": nodes.NoEffect, "Parts.In": nodes.NoEffect,
	}
	o := options{Carried: 1, Ignored: 1, private: 1}
	o.Whole.Out, o.Parts.In = errors.New("set"), errors.New("set")
	require.NoError(t, d.Check(o))
	o.hidden = 1
	require.EqualError(t, d.Check(o), "hidden: private")
	o.Parts.Out = errors.New("set")
	require.EqualError(t, d.Check(o), "Parts.Out: this version of the adapter does not know it")
	o.Refused = 1
	require.EqualError(t, d.Check(o), "Refused: no use")
	require.Equal(t, []string{"Parts.Out", "private"}, d.Undecided(reflect.TypeFor[options]()))
	require.Equal(t, []string{"Parts.Out", "private", "Gone (there is no such field)"},
		d.And(nodes.Decisions{"Gone": nodes.Carried}).Undecided(reflect.TypeFor[options]()))
}
