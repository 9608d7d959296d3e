package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
)

// AddStandby starts a server that follows server j, and takes its place when that fails over.
func (c *Cluster) AddStandby(j int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	config := c.servers[j].config
	config.Args = append([]string{"--repl-diskless-sync-delay", "0"}, config.Args...)
	s, err := newServer(config, serverAddr(maxServers+j), filepath.Join(c.dir, fmt.Sprintf("standby%d", j)), c.shim)
	if err != nil {
		return fmt.Errorf("standby of server %d: %w", j, err)
	}
	c.standbys[j] = s
	return errors.Join(s.Start(), s.follow(c.servers[j]))
}

// HasStandby reports whether server j may fail over.
func (c *Cluster) HasStandby(j int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standbys[j] != nil
}

// Lag keeps from the standby of server j what the server does until the failover, which has to follow.
func (c *Cluster) Lag(j int) error {
	c.mu.Lock()
	server, standby := c.servers[j], c.standbys[j]
	c.mu.Unlock()
	if err := standby.Freeze(); err != nil {
		return err
	}
	_, err := server.Do("CLIENT", "KILL", "TYPE", "replica") // otherwise the standby would still read what is on its way
	return err
}

// FailOver has the standby of server j take its place: it is server j from now on, and connections lead to it. The former one keeps those
// that it has, follows, and writes nothing. What the standby has not got is lost.
func (c *Cluster) FailOver(j int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	former, next := c.servers[j], c.standbys[j]
	if err := errors.Join(former.follow(next), next.Thaw()); err != nil { // first, so that there are never two that write
		return err
	}
	for _, links := range c.links {
		links[j].redirect(next.Addr())
	}
	c.servers[j], c.standbys[j] = next, former
	_, err := next.Do("REPLICAOF", "NO", "ONE")
	return err
}

// follow makes a server the replica of another.
func (s *Server) follow(other *Server) error {
	_, err := s.Do("REPLICAOF", other.ip, strconv.Itoa(port))
	return err
}

// redirect has connections from now on lead to another server.
func (l *Link) redirect(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
}
