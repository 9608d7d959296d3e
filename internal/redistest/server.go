// Package redistest starts Redis servers for tests: miniredis inside the test's own process (Mini),
// or redis-server processes on free ports of the loopback interface (Real).
//
// Both kinds share the Server interface, so that one suite of tests can run on either.
// Whatever a function of this package starts ends with the test that asked for it.
package redistest

// Server is a Redis server that a test owns. All methods may be called from any goroutine.
type Server interface {
	// Addr returns host:port. It stays the same when the server is stopped and started again.
	Addr() string

	// URL returns redis://host:port.
	URL() string

	// Do runs one command on a connection of its own, for looking at and changing what the server holds.
	// It fails after a few seconds if the server does not answer.
	Do(cmd string, args ...any) (any, error)

	// Stop ends the server as a crash would: connections are cut, and keys and cached scripts are lost.
	// It does nothing when the server is stopped already.
	Stop()

	// Start brings a stopped server up again, empty and on the same address, and returns when it answers.
	// It does nothing when the server is running. A server that does not come up fails the test.
	Start()
}

// URLs returns the URL of each server, in the same order.
func URLs[S Server](servers []S) []string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	return urls
}

// Servers returns processes as the interface that Mini returns too.
func Servers(processes []*Process) []Server {
	servers := make([]Server, len(processes))
	for i, p := range processes {
		servers[i] = p
	}
	return servers
}
