package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

// watchFlags let a command show the same again and again.
type watchFlags struct {
	Watch    bool          `short:"W" group:"Output" help:"Show it again and again, until interrupted."`
	Interval time.Duration `default:"1s" placeholder:"TIME" group:"Output" help:"The pause of --watch (default ${default})."`
}

func (f *watchFlags) check() error {
	if err := between("--interval", f.Interval, 100*time.Millisecond, time.Hour); err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

// line is a line of text, without a line break.
type line struct {
	text  string
	color *color.Color // nil means none
}

// paper is what lines are printed on.
type paper struct {
	w       io.Writer
	columns int // lines are clipped to; 0 means they are not
	rows    int // more lines are left out; 0 means none is
}

func (p paper) print(lines []line) {
	if p.rows > 0 && len(lines) > p.rows {
		more := len(lines) - p.rows + 1
		lines = append(lines[:p.rows-1:p.rows-1], line{fmt.Sprintf("… and %d lines more", more), dim})
	}
	for _, l := range lines {
		if p.columns > 0 {
			l.text = clip(l.text, p.columns)
		}
		if l.color != nil {
			l.text = l.color.Sprint(l.text)
		}
		fmt.Fprintln(p.w, l.text)
	}
}

const (
	atTop    = "\x1b[H"
	toEnd    = "\x1b[K\n" // of the line, and on to the next
	allBelow = "\x1b[J"   // is cleared
)

// run calls show, which prints what there is now, with --watch until ctx ends. On a terminal each call draws over the one
// before; elsewhere an empty line is between them, unless there is one line for each.
func (f *watchFlags) run(ctx context.Context, to streams, lines bool, show func(out, err paper) error) error {
	screen := terminal(to.out)
	out, errs := paper{w: to.out}, paper{w: to.err}
	if screen != nil && !lines {
		out.columns, _ = terminalSize(screen)
	}
	if !f.Watch {
		return show(out, errs)
	}
	for first := true; ; first = false {
		if screen == nil || lines {
			if !first && !lines {
				fmt.Fprintln(to.out)
			}
			if err := show(out, errs); err != nil && ctx.Err() == nil {
				errs.print([]line{{display.Error(err), bad}})
			}
		} else {
			var frame bytes.Buffer
			on := paper{w: &frame}
			on.columns, on.rows = terminalSize(screen)
			on.rows-- // the cursor is in the last one
			if err := show(on, on); err != nil {
				paper{w: &frame, columns: on.columns}.print([]line{{firstLine(display.Error(err)), bad}})
			}
			text := bytes.ReplaceAll(frame.Bytes(), []byte("\n"), []byte(toEnd))
			if ctx.Err() == nil {
				fmt.Fprintf(to.out, "%s%s%s", atTop, text, allBelow)
			}
		}
		select {
		case <-time.After(f.Interval):
		case <-ctx.Done():
			return &exitError{code: exitCode(context.Cause(ctx))}
		}
	}
}

// terminal returns the terminal that w writes to; nil if it is none.
func terminal(w io.Writer) *os.File {
	if o, is := w.(*output); is {
		w = o.w
	}
	if file, is := w.(*os.File); is && isatty.IsTerminal(file.Fd()) {
		return file
	}
	return nil
}
