// Package nodes makes nodes of what programs say to clients other than ours.
package nodes

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/hostname"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/pool"
)

// DialTimeout is the default of a Server, which is that of package pool too.
const DialTimeout = 5 * time.Second

// Dialer makes a connection as a client does.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Server says how a client reaches a server, the primary of a group, or the servers of a cluster.
type Server struct {
	Address     string  // of a server: the path of a socket if it begins with a slash
	Group       Group   // if it has a name, the node is its primary
	Cluster     Cluster // if it has addresses, OpenCluster makes its nodes
	Database    int
	ClientName  string
	TLS         *tls.Config // nil if Dial encrypts, or nobody does
	DialTimeout time.Duration
	// Dial connects to the server. It gets its address as it was given, or that which a sentinel or the cluster names.
	Dial Dialer
	// Credentials returns what to log in with, if it is not nil.
	Credentials func(ctx context.Context, address string) (username, password string, err error)
}

// Group is a group of servers, and the sentinels that watch it.
type Group struct {
	Name               string
	Sentinels          []string
	Username, Password string // of the sentinels
	Dial               Dialer // connects to a sentinel, and encrypts
}

// Open makes one node for each server. The errors call a server options, with its index.
func Open(servers []*Server, opts []pool.Option) ([]*pool.Node, error) {
	if err := checkOptions(opts); err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, invalid.Errorf("no options given: a lock needs at least one node")
	}
	urls := make([]string, len(servers))
	for i, s := range servers {
		if first := slices.IndexFunc(servers[:i], s.same); first >= 0 {
			return nil, invalid.Errorf("options %d: %s is that of options %d too", i, s.place(), first)
		}
		var err error
		if urls[i], err = s.url(); err != nil {
			return nil, invalid.Errorf("options %d: %w", i, err)
		}
	}
	nodes := make([]*pool.Node, len(servers))
	for i, s := range servers {
		// A dialer learns the address, and not which node it dials for. So each node comes from a call of its own. The call has all
		// URLs, because functions among the options get the index.
		all, err := pool.Open(urls, s.options(opts)...)
		if err != nil {
			return nil, err
		}
		for j, n := range all {
			if j != i {
				_ = n.Close()
			}
		}
		nodes[i] = all[i]
	}
	return nodes, nil
}

// checkOptions refuses options that say how to connect. They are none for Wrap either.
func checkOptions(opts []pool.Option) error {
	_, err := pool.Wrap([]*redis.Pool{{}}, opts...)
	return err
}

// CheckAddresses returns an error if a field of options has no addresses, or one without a port. A function of the program
// that dials may take any address but "".
func CheckAddresses(field string, addresses []string, dials bool) error {
	if len(addresses) == 0 {
		return fmt.Errorf("%s: must have an address", field)
	}
	for _, address := range addresses {
		if _, _, err := net.SplitHostPort(address); err != nil && (!dials || address == "") {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// same reports whether two servers, or groups, are one.
func (s *Server) same(other *Server) bool {
	if s.Group.Name == "" || other.Group.Name == "" {
		return s.Group.Name == other.Group.Name && Host(s.Address) == Host(other.Address)
	}
	return s.Group.Name == other.Group.Name && slices.ContainsFunc(s.Group.Sentinels, func(one string) bool {
		return slices.ContainsFunc(other.Group.Sentinels, func(another string) bool { return Host(one) == Host(another) })
	})
}

// name returns the name of the node. Of a cluster it is the i-th one.
func (s *Server) name(i int) string {
	switch {
	case s.Cluster.Addresses != nil:
		return s.Cluster.name(i)
	case s.Group.Name != "":
		return s.Group.Name + "@" + s.Group.Sentinels[0]
	}
	return s.Address
}

// place names where the server is.
func (s *Server) place() string {
	if s.Group.Name != "" {
		return fmt.Sprintf("group %q of these sentinels", s.Group.Name)
	}
	return fmt.Sprintf("address %q", s.Address)
}

// groupName matches the names that Sentinel permits for a group.
var groupName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// url returns a URL of the server. It has no password of the server.
func (s *Server) url() (string, error) {
	scheme, database := "redis", url.Values{"db": {strconv.Itoa(s.Database)}}
	switch {
	case s.Group.Name != "":
		if !groupName.MatchString(s.Group.Name) {
			return "", fmt.Errorf("group %q: a name has letters, digits and ._-", s.Group.Name)
		}
		hosts, err := hostsOf("sentinel", s.Group.Sentinels)
		if err != nil {
			return "", err
		}
		if s.Group.Password != "" {
			database.Set("sentinel_user", s.Group.Username)
			database.Set("sentinel_password", s.Group.Password)
		}
		return fmt.Sprintf("redis+sentinel://%s/%s?%s", hosts, s.Group.Name, database.Encode()), nil
	case strings.HasPrefix(s.Address, "/"):
		return (&url.URL{Scheme: "unix", Path: s.Address, RawQuery: database.Encode()}).String(), nil
	case s.TLS != nil:
		scheme = "rediss"
	}
	return fmt.Sprintf("%s://%s?%s", scheme, escaped(Host(s.Address)), database.Encode()), nil
}

// hostsOf returns addresses as the hosts of a URL.
func hostsOf(kind string, addresses []string) (string, error) {
	hosts := make([]string, len(addresses))
	for i, address := range addresses {
		if hosts[i] = escaped(Host(address)); slices.Contains(hosts[:i], hosts[i]) {
			return "", fmt.Errorf("%s %q is given twice", kind, address)
		}
	}
	return strings.Join(hosts, ","), nil
}

// escaped returns an address as it stands in a URL: the % before the zone of an IPv6 address is escaped.
func escaped(address string) string { return strings.ReplaceAll(address, "%", "%25") }

// Host returns an address in the form that package pool gives it, so that all programs call the server by one name. What is no
// address, because only a Dial knows what it means, becomes a name of its own.
func Host(address string) string {
	if one, is := hostPort(address); is || strings.HasPrefix(address, "/") {
		return cmp.Or(one, address)
	}
	return "address-" + hex.EncodeToString([]byte(strings.ToLower(address))) + ":6379"
}

// hostPort returns the one spelling of a host and a port. is is false for any other address.
func hostPort(address string) (one string, is bool) {
	host, port, err := net.SplitHostPort(address)
	number, wrong := strconv.ParseUint(port, 10, 16)
	if err != nil || wrong != nil || number == 0 {
		return "", false
	}
	host, is = hostname.One(host)
	if !is {
		return "", false
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10)), true
}

// given returns the addresses that the program has named.
func (s *Server) given() []string {
	switch {
	case s.Cluster.Addresses != nil:
		return s.Cluster.Addresses
	case s.Group.Name != "":
		return s.Group.Sentinels
	}
	return []string{s.Address}
}

// options returns the options of package pool for the node of the server.
func (s *Server) options(opts []pool.Option) []pool.Option {
	all := append([]pool.Option{
		pool.WithDialTimeout(s.DialTimeout),
		pool.WithName(s.name),
	}, opts...)
	given := map[string]string{}
	for _, address := range s.given() {
		given[Host(address)] = address
	}
	own := func(address string) string { // as it was given, unless a server has named it
		return cmp.Or(given[address], address)
	}
	all = append(all, pool.WithDialer(func(ctx context.Context, _, address string) (net.Conn, error) {
		dial := s.Dial
		if _, is := given[address]; is && s.Group.Name != "" {
			dial = s.Group.Dial
		}
		return abruptly(dial(ctx, own(address)))
	}))
	if s.Credentials != nil {
		all = append(all, pool.WithCredentials(func(ctx context.Context, address string) (string, string, error) {
			return s.Credentials(ctx, own(address))
		}))
	}
	if s.ClientName != "" {
		all = append(all, pool.WithClientName(s.ClientName))
	}
	if s.TLS != nil {
		all = append(all, pool.WithTLSConfig(s.TLS))
	}
	return all
}

// abrupt is a connection whose Close does not say goodbye, which may take seconds.
type abrupt struct{ *tls.Conn }

func (c abrupt) Close() error { return c.NetConn().Close() }

func abruptly(conn net.Conn, err error) (net.Conn, error) {
	if secure, is := conn.(*tls.Conn); is && err == nil {
		return abrupt{secure}, nil
	}
	return conn, err
}

// Dial makes a connection of a dialer, with TLS if config is not nil. Without a timeout it has [DialTimeout]. Without a
// setting of keep-alive it notices within half a minute that the other end has vanished, as package pool does.
func Dial(ctx context.Context, dialer net.Dialer, network, address string, config *tls.Config) (net.Conn, error) {
	if dialer.Timeout == 0 {
		dialer.Timeout = DialTimeout
	}
	if dialer.KeepAlive == 0 && !dialer.KeepAliveConfig.Enable {
		dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
	}
	if config == nil {
		return dialer.DialContext(ctx, network, address)
	}
	return (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(ctx, network, address)
}
