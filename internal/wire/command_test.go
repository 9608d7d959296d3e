package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// The server does not push what the connection itself has changed, so whoever waits in this process is told of it.
func TestCommand_MayHaveChangedAKeyThatSomeShare(t *testing.T) {
	shared, m := form.Shared{Kind: form.KindShared}, form.ID{Key: "key", Token: "token"}
	var enter, stay, leave, single wire.Command
	shared.Acquire(&enter, m, form.Ask{})
	shared.Extend(&stay, m, 0)
	shared.Release(&leave, m, 0)
	form.Exclusive{}.Release(&single, m, 0)
	yes, no, same := wire.Reply{Answer: quorum.Yes}, wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}, wire.Reply{Answer: quorum.Yes, Same: true}
	tracked := wire.Reply{Answer: quorum.Yes, Tracked: true}
	for _, c := range []*wire.Command{&enter, &stay, &leave} {
		require.True(t, c.Changed(&yes))
		require.False(t, c.Changed(&same), "most who come and go leave it as it was")
	}
	require.False(t, stay.Changed(&tracked), "the next change is pushed")
	require.False(t, enter.Changed(&no))
	require.False(t, stay.Changed(&no))
	require.True(t, leave.Changed(&no), "the lease of the last one may have been over")
	require.False(t, single.Changed(&no))
	require.False(t, leave.Changed(&wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}), "the key is somebody else's, and the time for which it has had no TTL goes on")
}
