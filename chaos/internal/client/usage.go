package client

import (
	"os"
	"runtime"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// usageEvery is how often it is noted what the process needs.
const usageEvery = time.Second

// noteUsage notes what the process needs, until stop is closed.
func noteUsage(r *history.Recorder, stop <-chan struct{}) {
	ticker := time.NewTicker(usageEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			continue // there are none left
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := history.Now()
		r.Note(history.Op{
			Kind: history.Usage, Start: now, End: now, Goroutines: runtime.NumGoroutine(), Heap: int64(m.HeapAlloc), Files: len(files),
		})
	}
}
