package pictures

import (
	"context"
	"errors"
	"net"
	"time"
)

// link returns a dialer for connections to far servers: what is sent to the i-th of addrs, and what comes back, takes
// oneWay[i].
func link(addrs []string, oneWay []time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		delay := time.Duration(0)
		for i, a := range addrs {
			if a == address {
				delay = oneWay[i]
			}
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		go carry(far, c, delay)
		go carry(c, far, delay)
		return near, nil
	}
}

// chunk is what was read at once, and when it arrives at the other end.
type chunk struct {
	bytes []byte
	due   time.Time
}

// carry passes on what comes from one connection to the other, in order and later, until either ends. It closes both.
func carry(to, from net.Conn, delay time.Duration) {
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 4096)
			n, err := from.Read(buffer)
			if n > 0 {
				chunks <- chunk{buffer[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	var err error
	for c := range chunks {
		if err == nil {
			<-time.After(time.Until(c.due))
			if _, err = to.Write(c.bytes); err != nil {
				_ = from.Close() // ends the reader
			}
		}
	}
	_ = errors.Join(to.Close(), from.Close())
}
