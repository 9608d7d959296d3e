package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
)

// progress shows how much time has passed, if w is a terminal. The function that it returns
// removes the bar.
func progress(w io.Writer, warmUp, duration time.Duration) (stop func()) {
	file, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return func() {}
	}
	began, tick, over := time.Now(), time.NewTicker(200*time.Millisecond), make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		defer tick.Stop()
		defer fmt.Fprint(w, "\r\x1b[K")
		for {
			select {
			case <-tick.C:
			case <-over:
				return
			}
			passed, phase := time.Since(began), "warming up"
			if passed >= warmUp {
				phase = "measuring"
			}
			part := min(1, passed.Seconds()/(warmUp+duration).Seconds())
			bar := strings.Repeat("=", int(40*part))
			fmt.Fprintf(w, "\r%-10s [%-40s] %3.0f%% of %s", phase, bar, 100*part, plain(warmUp+duration))
		}
	})
	return func() {
		close(over)
		showing.Wait()
	}
}
