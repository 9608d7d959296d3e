package redisserver

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Servers listen below the ports that systems hand to outgoing connections (from 32768 on Linux, from 49152
// elsewhere). A client could otherwise be given the port of a stopped server, which then could not come back.
const (
	firstPort = 10000
	lastPort  = 32767
)

// Listen listens on a random free port of 127.0.0.1, one that no outgoing connection is given.
func Listen() (net.Listener, error) {
	var last error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort+1)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, last)
}
