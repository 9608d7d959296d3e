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
	barShape = `{{string . "what"}} {{bar . "[" "=" ">" " " "]"}} {{percent . "%3.0f%%"}} of {{string . "length"}}`
)

// progress shows how the time goes by, where w is a terminal. The function that it
// returns takes the bar away again.
func progress(w io.Writer, warmUp, duration time.Duration) (stop func()) {
	file, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return func() {}
	}
	length := warmUp + duration
	bar := pb.ProgressBarTemplate(barShape).New(int(length.Milliseconds()))
	bar.SetWriter(w).SetMaxWidth(screen).SetRefreshRate(refresh)
	bar.Set(pb.CleanOnFinish, true).Set(pb.Terminal, true)
	bar.Set("what", "warming up").Set("length", length.String())
	bar.Start()
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
			gone := time.Since(began)
			if gone >= warmUp {
				bar.Set("what", "measuring ")
			}
			bar.SetCurrent(min(gone, length).Milliseconds())
		}
	})
	return func() {
		close(over)
		showing.Wait()
		bar.Finish()
	}
}
