package promredlock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// seriesOf counts the series that a server scrapes. A histogram has one for each bucket, that of +Inf too, and its sum and count.
func seriesOf(t *testing.T, c prometheus.Collector) (n int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if h := metric.GetHistogram(); h != nil {
				n += len(h.GetBucket()) + 3
			} else {
				n++
			}
		}
	}
	return n
}

// votes makes five nodes give an answer.
func votes(c *promredlock.Collector, op event.Op, answer protocol.Answer) {
	for node := range 5 {
		c.Observe(protocol.Vote{Op: op, Addr: fmt.Sprintf("node%d:6379", node), Answer: answer, Took: time.Millisecond})
	}
}

// doOnce makes the events of a call of Do on five nodes, whose lock is renewed and released.
func doOnce(c *promredlock.Collector, name string) {
	votes(c, event.OpAcquire, protocol.AnswerYes)
	c.Observe(event.Acquire{Name: name, Kind: "exclusive", Op: event.OpAcquire, Took: time.Millisecond, Rounds: 1})
	votes(c, event.OpExtend, protocol.AnswerYes)
	c.Observe(event.Extend{Name: name, Renewal: true, Took: time.Millisecond, Left: 2 * time.Second, Validity: 3 * time.Second})
	votes(c, event.OpUnlock, protocol.AnswerYes)
	c.Observe(event.End{Name: name, Kind: "exclusive", Err: redlock.ErrReleased, Held: time.Second})
	c.Observe(event.Unlock{Name: name, Took: time.Millisecond})
}

func TestCollector_HasAsManySeriesAsTheDocumentationSays(t *testing.T) {
	page, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "| a process on five nodes | series |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	lines := strings.Split(table, "\n")
	require.Len(t, lines, 4)
	states := func(i, series int) {
		require.Regexp(t, fmt.Sprintf(`\| %d \|$`, series), lines[i])
	}

	c := promredlock.New()
	for node := range 5 {
		c.Observe(event.NodeUp{At: time.Now(), Addr: fmt.Sprintf("node%d:6379", node)})
	}
	states(0, seriesOf(t, c))
	doOnce(c, "invoice-1")
	states(1, seriesOf(t, c))
	votes(c, event.OpAcquire, protocol.AnswerNo)
	doOnce(c, "invoice-2")
	states(2, seriesOf(t, c))

	named := promredlock.New(promredlock.WithNameLabel(func(name string) string { return name }))
	doOnce(named, "invoice")
	before := seriesOf(t, named)
	doOnce(named, "report")
	states(3, seriesOf(t, named)-before)
}
