package relay

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	// chunkBytes is how much is read at once.
	chunkBytes = 16 << 10
	// mostChunks is how many chunks are on their way in one direction. Nothing is read while there are more.
	mostChunks = 4096
)

// join passes on what comes from either connection to the other, until both ends are closed or one fails.
func join(a, b *net.TCPConn, oneWay time.Duration) {
	var directions sync.WaitGroup
	directions.Go(func() { carry(b, a, oneWay) })
	directions.Go(func() { carry(a, b, oneWay) })
	directions.Wait()
	_, _ = a.Close(), b.Close()
}

// chunk is what was read at once, and when it has to arrive.
type chunk struct {
	data []byte
	due  time.Time
}

// carry passes on what comes from one connection. The chunks are on their way at the same time, so that the delay takes
// nothing from the bandwidth. The end of the sending side is passed on like a chunk.
func carry(to, from *net.TCPConn, oneWay time.Duration) {
	chunks := make(chan chunk, mostChunks)
	go func() {
		defer close(chunks)
		buffer := make([]byte, chunkBytes)
		for {
			n, err := from.Read(buffer)
			chunks <- chunk{bytes.Clone(buffer[:n]), time.Now().Add(oneWay)}
			if err != nil {
				return
			}
		}
	}()
	alarm := newAlarm()
	defer alarm.close()
	for c := range chunks {
		alarm.wait(c.due)
		if _, err := to.Write(c.data); err != nil {
			_ = from.Close() // ends the reader, whose chunks go nowhere
		}
	}
	_ = to.CloseWrite()
}
