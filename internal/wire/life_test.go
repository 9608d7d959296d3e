package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestMain(m *testing.M) {
	wire.Illegal = func(change string) { panic(change) }
	goleak.VerifyTestMain(m)
}

func TestLife_PausesGrowUntilAConnectionIsUseful(t *testing.T) {
	p := &pipe{t, &wire.Pipeline[string]{Life: wire.Life{Least: 20 * time.Millisecond, Most: time.Second}}}
	now := start
	pause := func() time.Duration {
		at := p.Life.Dial(now)
		took := at.Sub(now)
		now = at
		require.Equal(t, at, p.Life.Dial(now))
		return took
	}
	require.Zero(t, pause(), "nothing has failed yet")
	for _, want := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
		p.Failed(now, errDown)
		require.Equal(t, want*time.Millisecond, pause())
	}
	p.Life.Greeted(now)
	p.Broken(now, nil, false)
	require.Equal(t, time.Second, pause(), "it was of no use")
	p.Life.Greeted(now)
	p.Broken(now, nil, true)
	require.Zero(t, pause(), "it has served")
	p.Failed(now, errDown)
	require.Equal(t, 20*time.Millisecond, pause())
	p.Life.Greeted(now)
	now = now.Add(time.Second)
	p.Broken(now, nil, false)
	require.Zero(t, pause(), "it has lasted")
}
