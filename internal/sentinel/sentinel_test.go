package sentinel_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/inquiry/inquirytest"
	"github.com/quorumlock/quorumlock/internal/sentinel"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFind_AnswersWithThePrimaryAlsoAfterAFailover(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "mymaster")
	g := sentinel.New("mymaster", inquirytest.At(s.Addrs()...))
	require.Equal(t, s.Group("mymaster").Primary().Addr(), inquirytest.Find(t, g))
	s.Group("mymaster").FailOver()
	require.Equal(t, s.Group("mymaster").Primary().Addr(), inquirytest.Find(t, g))
}

func TestFind_GoesOnWithSentinelsThatAreThere(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "mymaster")
	g := sentinel.New("mymaster", inquirytest.At(s.Addrs()...))
	s.Processes()[0].Freeze()
	s.Processes()[1].Stop()
	for range 4 { // in random order
		require.Equal(t, s.Group("mymaster").Primary().Addr(), inquirytest.Find(t, g))
	}
}
