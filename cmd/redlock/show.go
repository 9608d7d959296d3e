package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

const (
	screen   = 80 // columns
	indent   = "   "
	yesMark  = "●"
	noMark   = "○"
	elseMark = "·"
)

var (
	good, bad, odd = color.New(color.FgGreen), color.New(color.FgRed), color.New(color.FgYellow)
	dim, loud      = color.New(color.Faint), color.New(color.Bold)
)

// show prints the steps of a demo. Its lines fit on a screen.
type show struct {
	w     io.Writer
	empty bool     // nothing was printed since the step began
	addrs []string // of the nodes: the first one is node 1
}

// name returns the name of a node.
func (s *show) name(addr string) string {
	if i := slices.Index(s.addrs, addr); i >= 0 {
		return fmt.Sprint("node ", i+1)
	}
	return addr
}

func (s *show) line(format string, args ...any) {
	fmt.Fprintln(s.w, indent+fmt.Sprintf(format, args...))
	s.empty = false
}

func (s *show) title(nodes, need int, about, name string) {
	fmt.Fprintf(s.w, "A lock over %d independent Redis nodes: whoever has %d of them holds the lock.\n", nodes, need)
	fmt.Fprintln(s.w, dim.Sprintf("Nodes: %s", about))
	for _, addr := range s.addrs {
		fmt.Fprintln(s.w, dim.Sprint(clip(fmt.Sprintf("       %s  %s", s.name(addr), addr), screen)))
	}
	fmt.Fprintln(s.w, dim.Sprintf("Lock:  %s", name))
	fmt.Fprintf(s.w, "Marks, one for each node: %s yes  %s no  %s no answer, or not asked\n",
		good.Sprint(yesMark), bad.Sprint(noMark), dim.Sprint(elseMark))
}

func (s *show) step(number int, title string, args ...any) {
	fmt.Fprintf(s.w, "\n%s\n\n", loud.Sprintf("%d  %s", number, fmt.Sprintf(title, args...)))
	s.empty = true
}

func (s *show) end(steps int, took time.Duration) {
	fmt.Fprintf(s.w, "\n%s All %d steps went as they should, in %s. The lock is free again.\n",
		good.Sprint("✔"), steps, benchreport.Duration(took))
	fmt.Fprintln(s.w, "Next: redlock demo --nodes URL,URL,URL · docs/guide.md")
}

// node prints what happened to a node.
func (s *show) node(addr, what string) { s.line("%s  %s", s.name(addr), odd.Sprint(what)) }

// votes prints the answer of each node, a line each.
func (s *show) votes(seen *round) {
	if !s.empty {
		fmt.Fprintln(s.w)
	}
	var rows [][]string
	var colors []*color.Color
	for _, vote := range seen.votes {
		if vote != nil {
			_, c := mark(vote.Answer)
			rows = append(rows, []string{s.name(vote.Addr), vote.Answer.String(), benchreport.Duration(vote.Took), reason(vote.Err)})
			colors = append(colors, c)
		}
	}
	for i, line := range columns(rows, 0, 1, 3) {
		s.line("%s", colors[i].Sprint(clip(line, screen-len(indent))))
	}
}

// outcome prints a mark for each node and a sentence.
func (s *show) outcome(seen *round, c *color.Color, format string, args ...any) {
	var marks strings.Builder
	for _, vote := range seen.votes {
		answer := protocol.AnswerUnsent
		if vote != nil {
			answer = vote.Answer
		}
		symbol, c := mark(answer)
		marks.WriteString(c.Sprint(symbol))
	}
	s.line("%s  %s", marks.String(), c.Sprintf(format, args...))
}

// mark returns the mark and the colour of an answer.
func mark(answer protocol.Answer) (string, *color.Color) {
	switch answer {
	case protocol.AnswerYes:
		return yesMark, good
	case protocol.AnswerNo, protocol.AnswerRefused:
		return noMark, bad
	}
	return elseMark, odd
}

// reason explains why a node did not answer yes. An error of the operating system is enough: the
// address is in the line already.
func reason(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, errUnreachable):
		return errUnreachable.Error()
	}
	return display.Error(err)
}

// columns aligns the cells of rows: texts are the columns that are aligned to the left.
func columns(rows [][]string, texts ...int) []string {
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], textWidth(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			space := strings.Repeat(" ", width[i]-textWidth(cell))
			if slices.Contains(texts, i) {
				line += cell + space + "  "
			} else {
				line += space + cell + "  "
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}
