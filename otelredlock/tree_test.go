package otelredlock_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

var writeTree = flag.String("tree", "", "write the trace of a contended lock into this document, between its marks")

const treeBegin, treeEnd = "<!-- trace -->\n```text\n", "```\n<!-- end of the trace -->\n"

func TestTrace_CanBeReadAsATree(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	_, waiter := contend(m, servers)
	of(m, waiter, "redlock hold")
	of(m, waiter, "redlock unlock")
	var nodes []string
	for i, s := range servers {
		nodes = append(nodes, s.Addr(), fmt.Sprintf("node %d", i+1))
	}
	text := tree(m.spans.GetSpans(), waiter, strings.NewReplacer(nodes...))
	for _, part := range []string{
		"redlock acquire", "│  ├─ redlock wait", "├─ redlock hold", "└─ redlock unlock", "redlock.round: taken", "redlock.round: done", "EVAL node 3",
	} {
		require.Contains(t, text, part)
	}
	if *writeTree == "" {
		return
	}
	doc, err := os.ReadFile(*writeTree)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(doc), treeBegin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, treeEnd)
	require.True(t, found)
	require.NoError(t, os.WriteFile(*writeTree, []byte(before+treeBegin+text+treeEnd+after), 0o600))
}

// line is a span or a span event in a tree.
type line struct {
	at       time.Time
	text     string
	children []line
}

// tree returns what is below a span, with the times since the first of it.
func tree(spans []tracetest.SpanStub, root trace.SpanContext, nodes *strings.Replacer) string {
	lines := below(spans, root.SpanID(), nodes)
	var b strings.Builder
	write(&b, lines, lines[0].at, "")
	return b.String()
}

func below(spans []tracetest.SpanStub, parent trace.SpanID, nodes *strings.Replacer) (lines []line) {
	for _, s := range spans {
		if s.Parent.SpanID() != parent {
			continue
		}
		text := fmt.Sprintf("%s  %v", nodes.Replace(s.Name), s.EndTime.Sub(s.StartTime).Round(time.Microsecond))
		if answer, ok := attributes(s.Attributes)["redlock.answer"]; ok {
			text += fmt.Sprintf(": %v", answer)
		}
		for _, link := range s.Links {
			for _, of := range spans {
				if of.SpanContext.SpanID() == link.SpanContext.SpanID() {
					text += ", linked to " + of.Name
				}
			}
		}
		found := line{at: s.StartTime, text: text, children: below(spans, s.SpanContext.SpanID(), nodes)}
		for _, e := range s.Events {
			attrs := attributes(e.Attributes)
			text := fmt.Sprintf("%s: %v", e.Name, attrs["redlock.outcome"])
			found.children = append(found.children, line{at: e.Time, text: text})
		}
		slices.SortStableFunc(found.children, func(a, b line) int { return a.at.Compare(b.at) })
		lines = append(lines, found)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	return lines
}

func write(b *strings.Builder, lines []line, since time.Time, indent string) {
	for i, l := range lines {
		branch, under := "├─ ", "│  "
		if i == len(lines)-1 {
			branch, under = "└─ ", "   "
		}
		fmt.Fprintf(b, "%10v  %s%s%s\n", l.at.Sub(since).Round(time.Microsecond), indent, branch, l.text)
		write(b, l.children, since, indent+under)
	}
}
