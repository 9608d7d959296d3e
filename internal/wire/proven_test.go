package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestProven_IsWhatItsOwnProofWasGrantedFor(t *testing.T) {
	script, proof, other := new(wire.Script), new(wire.Script), new(wire.Script)
	plain, kind := &wire.Command{Proof: proof}, &wire.Command{Script: script, Proof: other}
	var p wire.Proven
	require.Nil(t, p.Carrier(&wire.Command{}))
	require.Same(t, script, p.Carrier(&wire.Command{Script: script}))
	require.False(t, p.Lacks(&wire.Command{Script: script}))

	p.Granted(plain, nil) // as the first of several was granted behind which it came
	p.Granted(kind, script)
	p.Granted(&wire.Command{Script: proof}, proof) // which asks for nothing to be proven
	require.Same(t, proof, p.Carrier(plain))
	require.Same(t, other, p.Carrier(kind))
	require.True(t, p.Lacks(plain) && p.Lacks(kind))

	p.Granted(plain, proof)
	require.Nil(t, p.Carrier(plain))
	require.False(t, p.Lacks(plain))
	require.True(t, p.Lacks(kind), "each kind proves its own")
	p.Granted(kind, other)
	require.Same(t, script, p.Carrier(kind))
}
