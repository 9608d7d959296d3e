package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Config says what a cluster consists of.
type Config struct {
	// Servers are those at the start, up to 9.
	Servers []ServerConfig
	// Clients is how many network namespaces there are for clients.
	Clients int
	// Dir is where the cluster makes its directory. By default it is in memory, and goes with this process, however that ends.
	Dir string
}

// Cluster is a number of servers, and networks in which clients reach them. All methods may be called from any goroutine.
type Cluster struct {
	dir     string
	shim    string
	clients []*namespace

	mu        sync.Mutex
	servers   []*Server
	standbys  map[int]*Server // of some servers, by their numbers
	links     [][]*Link       // by client and server
	databases []*Postgres

	routing sync.Mutex
	lost    map[Path]bool // directions in which packets are lost
}

// New starts servers, and makes networks for clients. The context is for the start alone. If it fails nothing is left of the
// cluster; otherwise it ends with Close, or with this process.
func New(ctx context.Context, config Config) (*Cluster, error) {
	if !isolated {
		return nil, errors.New("cluster: this process is not isolated: call Isolate first")
	}
	if config.Clients > maxClients || len(config.Servers) > maxServers {
		return nil, fmt.Errorf("cluster: more than %d clients or %d servers", maxClients, maxServers)
	}
	dir := config.Dir
	if dir == "" {
		dir = scratch
	}
	c := &Cluster{lost: map[Path]bool{}, standbys: map[int]*Server{}, links: make([][]*Link, config.Clients)}
	if err := c.start(ctx, dir, config); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, dir string, config Config) (err error) {
	if c.dir, err = os.MkdirTemp(dir, "cluster"); err != nil {
		return err
	}
	if err := os.Chmod(c.dir, 0o711); err != nil { // PostgreSQL runs as another account
		return err
	}
	if c.shim, err = buildShim(c.dir); err != nil {
		return err
	}
	for i := range config.Clients {
		n, err := newNamespace(i)
		if err != nil {
			return err
		}
		c.clients = append(c.clients, n)
	}
	for _, server := range config.Servers {
		if _, err := c.AddServer(ctx, server); err != nil {
			return err
		}
	}
	return nil
}

// AddServer starts one more server, and lets all clients reach it.
func (c *Cluster) AddServer(ctx context.Context, config ServerConfig) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	j := len(c.servers)
	if j >= maxServers {
		return nil, fmt.Errorf("there are %d servers already", j)
	}
	s, err := newServer(config, serverAddr(j), filepath.Join(c.dir, fmt.Sprintf("server%d", j)), c.shim)
	if err != nil {
		return nil, fmt.Errorf("server %d: %w", j, err)
	}
	c.servers = append(c.servers, s)
	for i := range c.links {
		link, err := newLink(c.Addr(i, j), s.Addr())
		if err != nil {
			return nil, err
		}
		c.links[i] = append(c.links[i], link)
	}
	return s, s.Start()
}

// Server returns server j, counted from 0.
func (c *Cluster) Server(j int) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[j]
}

// Servers returns all servers, in their order.
func (c *Cluster) Servers() []*Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers)
}

// Addr returns where a client reaches a server.
func (c *Cluster) Addr(client, server int) string {
	return net.JoinHostPort(relayAddr(client, server), strconv.Itoa(port))
}

// Link returns the relay between a client and a server.
func (c *Cluster) Link(client, server int) *Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links[client][server]
}

// Dir returns the cluster's directory, which Close removes.
func (c *Cluster) Dir() string { return c.dir }

// Command returns a command that runs a program in a client's network. Its process becomes the program's own, so that
// signals reach that.
func (c *Cluster) Command(client int, program string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + c.clients[client].path(), "--", program}, args...)...)
}

// Close ends the servers, the databases and the networks, and removes the directory. Clients have to be ended before.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.HealAll()
	for _, links := range c.links {
		for _, link := range links {
			err = errors.Join(err, link.close())
		}
	}
	for _, s := range slices.AppendSeq(c.servers, maps.Values(c.standbys)) {
		err = errors.Join(err, s.close())
	}
	for _, p := range c.databases {
		err = errors.Join(err, p.Close())
	}
	for _, n := range c.clients {
		err = errors.Join(err, n.close())
	}
	c.links, c.servers, c.standbys, c.databases, c.clients = nil, nil, nil, nil, nil
	if c.dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}
