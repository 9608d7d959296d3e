package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/quorumlock/quorumlock/clock"
)

// progress shows how much time has passed, if w is a terminal. The function that it returns
// removes the bar.
func progress(w io.Writer, warmUp, duration time.Duration) (stop func()) {
	file, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	began := time.Now()
	var showing sync.WaitGroup
	showing.Go(func() {
		for clock.Sleep(ctx, clock.System(), 200*time.Millisecond) == nil {
			passed, phase := time.Since(began), "warming up"
			if passed >= warmUp {
				phase = "measuring"
			}
			part := min(1, passed.Seconds()/(warmUp+duration).Seconds())
			bar := strings.Repeat("=", int(40*part))
			fmt.Fprintf(w, "\r%-10s [%-40s] %3.0f%% of %v", phase, bar, 100*part, warmUp+duration)
		}
		fmt.Fprint(w, "\r\x1b[K")
	})
	return func() {
		cancel()
		showing.Wait()
	}
}
