package main

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"
)

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
