package main

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/cheggaaa/pb/v3"
	"github.com/mattn/go-isatty"
)

const (
	refresh  = 200 * time.Millisecond
	barShape = `{{string . "phase"}} {{bar . "[" "=" ">" " " "]"}} {{percent . "%3.0f%%"}} of {{string . "length"}}`
)

// progress shows how much time has passed, if w is a terminal. The function that it returns
// removes the bar.
func progress(w io.Writer, warmUp, duration time.Duration) (stop func()) {
	file, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return func() {}
	}
	length := warmUp + duration
	bar := pb.ProgressBarTemplate(barShape).New(int(length.Milliseconds()))
	bar.SetWriter(w).SetMaxWidth(screen).SetRefreshRate(refresh).Set(pb.CleanOnFinish, true).Set(pb.Terminal, true)
	bar.Set("phase", "warming up").Set("length", length.String()).Start()
	began := time.Now()
	over := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-over:
				return
			}
			passed := time.Since(began)
			if passed >= warmUp {
				bar.Set("phase", "measuring ")
			}
			bar.SetCurrent(min(passed, length).Milliseconds())
		}
	})
	return func() {
		close(over)
		showing.Wait()
		bar.Finish()
	}
}
