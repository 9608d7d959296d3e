package engine

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// The danger: a refusal of the first nodes has the names released on the others before the command comes there, which sets them then.
func TestTogether_AnswersWaitUntilTheCommandWasSentToAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := unanswered(t, clock.System())
		x := &Together{sent: make(chan struct{})} // as it is meanwhile
		for _, key := range []string{"a", "b"} {
			p := Part{Acquire: new(Acquire), Key: key, Call: &Call{Want: &Want{TTL: 1}}}
			e := g.Enter(key)
			p.begin(&p.acquire.Round, e, nil)
			e.Name.Join(&p.acquire, p.Call, "token", &p.Round)
			e.Exit()
			x.parts = append(x.parts, p)
		}
		refused := &wire.Reply{Answer: quorum.Refused, Err: nodeerr.ErrQuarantined}
		go x.Reply(wire.Tag{What: lock.Vote}, refused)
		synctest.Wait()
		for _, p := range x.parts {
			require.Equal(t, quorum.Pending, p.Answer(0))
		}
		close(x.sent)
		synctest.Wait()
		for _, p := range x.parts {
			require.Equal(t, quorum.Refused, p.Answer(0))
		}
	})
}
