package pool

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/hostname"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
)

// errInseparable is the error of a URL whose password may reach into any other part, because an @ follows a /, ? or #.
var errInseparable = errors.New("user name and password cannot be separated from the rest: " +
	"all but letters, digits and -._~ must be percent-encoded in them")

var errQuery = errors.New("parameters: an invalid escape after %, or a semicolon")

// secure has the schemes of URLs with a host, and whether they ask for TLS.
var secure = map[string]bool{"redis": false, "rediss": true, "valkey": false, "valkeys": true}

// parseURL parses the forms that Open documents, and returns a Server for each node. The TLS of a Server is nil unless
// the URL asks for TLS.
//
// The errors name the part that is wrong. They quote no part of the URL and no error of package url. A password that is
// not escaped, or that stands in the wrong place, looks like any other part.
func parseURL(raw string) ([]*node.Server, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	scheme, of, changes := strings.Cut(strings.ToLower(scheme), "+")
	parse, known := changing[of]
	_, hasHost := secure[scheme]
	if !found || changes != known || !hasHost && (scheme != "unix" || changes) {
		return nil, errors.New("scheme: must be redis://, rediss://, valkey://, valkeys:// or unix://, " +
			"or redis+sentinel:// and so on for a group that Sentinels watch, or redis+cluster:// and so on for a cluster")
	}
	// If a password contains /, ? or #, its rest looks like another part of the URL. So an @ there is an error. A unix://
	// URL without an authority is exempt, because the path of a socket may contain an @.
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	if strings.Contains(path, "@") && (hasHost || authority != "") {
		return nil, errInseparable
	}
	if changes {
		return parse(scheme, authority, path)
	}
	if hasHost && strings.Contains(authority[strings.LastIndex(authority, "@")+1:], ",") {
		return nil, errors.New("host: one server per URL, without a comma; " +
			"for a group that Sentinels watch write redis+sentinel://, for a cluster redis+cluster://")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, badURL(err)
	}
	s, err := readURL(u)
	return []*node.Server{s}, err
}

// changing has what follows the + in the scheme of a URL whose servers change, and what parses the URL.
var changing = map[string]func(scheme, authority, path string) ([]*node.Server, error){
	"sentinel": parseGroup, "cluster": parseCluster,
}

// badURL returns the reason why a URL cannot be parsed.
func badURL(err error) error {
	switch {
	case errors.As(err, new(url.EscapeError)):
		return errors.New("not a URL: an invalid escape after %")
	case errors.As(err, new(url.InvalidHostError)):
		return errors.New("not a URL: an invalid character in the host")
	}
	return errors.New(
		"not a URL: //[user:password@]host[:port][/db] must follow the scheme, with a number for the port; " +
			"in user and password all but letters, digits and -._~ must be percent-encoded")
}

// readURL reads the parts of a URL into a Server.
func readURL(u *url.URL) (*node.Server, error) {
	t := &node.Server{Network: "tcp"}
	if u.Fragment != "" {
		return nil, errors.New("fragment: there is nothing that # could mean")
	}
	if u.User != nil {
		t.Username = u.User.Username()
		password, isSet := u.User.Password()
		if !isSet || password == "" && t.Username != "" {
			// Other tools read a user name that stands alone as a password.
			return nil, errors.New("user name without a password: write redis://:password@host for a password alone")
		}
		t.Password = password
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errQuery
	}
	databases := query["db"]
	if delete(query, "db"); len(query) > 0 {
		return nil, errors.New("parameters: only db is known")
	}
	if u.Scheme == "unix" {
		t.Network, t.Address = "unix", u.Path
		if u.Host != "" || u.Path == "" {
			return nil, errors.New("socket: must be an absolute path, as in unix:///run/redis.sock")
		}
	} else {
		if t.Address, err = hostPort(u); err != nil {
			return nil, err
		}
		if secure[u.Scheme] {
			t.TLS = &tls.Config{}
			t.TLS.ServerName, _, _ = net.SplitHostPort(t.Address)
		}
		if path := strings.TrimPrefix(u.Path, "/"); path != "" {
			databases = append(databases, path)
		}
	}
	if len(databases) > 1 {
		return nil, errors.New("database: given twice")
	}
	for _, database := range databases {
		if t.Database, err = strconv.Atoi(database); err != nil || t.Database < 0 {
			return nil, errors.New("database: must be a number from 0")
		}
	}
	return t, nil
}

// hostPort returns the address in a URL. Two spellings of an IP address, or of a port, give one address.
func hostPort(u *url.URL) (string, error) {
	host, err := hostOf(u)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), "6379"))
	if err != nil || port < 1 || port > 65535 {
		return "", errors.New("port: must be from 1 to 65535")
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// zoneName matches the name or the number of a network interface.
var zoneName = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// hostOf returns the host in a URL. Each spelling of an IP address gives the same text, and a name is in lower case.
func hostOf(u *url.URL) (string, error) {
	host, bracketed := u.Hostname(), strings.HasPrefix(u.Host, "[")
	one, is := hostname.One(host)
	_, zone, _ := strings.Cut(one, "%")
	switch {
	case is && strings.Contains(host, ":") == bracketed && zoneName.MatchString(zone):
		return one, nil
	case strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }):
		return "", errors.New("host: a name with characters beyond ASCII must be written in punycode, which begins with xn--")
	}
	return "", errors.New(
		"host: must be an IP address, of IPv6 in brackets, or a name of letters, digits, - and _ with dots between them")
}

// sameServer reports whether two addresses name one server, or one sentinel and the same group. A cluster has the
// addresses of all its servers that are known. A dot at the end of a host name makes no difference.
func sameServer(a, b *node.Server) bool {
	one, ofGroup := a.Finder.(*sentinel.Group)
	other, bothOfGroups := b.Finder.(*sentinel.Group)
	if ofGroup || bothOfGroups {
		return ofGroup && bothOfGroups && sameGroup(one, other)
	}
	servers := serversOf(b)
	return slices.ContainsFunc(serversOf(a), func(one node.Server) bool {
		return slices.ContainsFunc(servers, func(other node.Server) bool { return sameAddress(&one, &other) })
	})
}

// serversOf returns the servers of a cluster that a URL names, or the one server.
func serversOf(s *node.Server) []node.Server {
	if n, is := s.Finder.(*cluster.Node); is {
		return n.Servers()
	}
	return []node.Server{*s}
}

func sameAddress(a, b *node.Server) bool {
	plain := func(s *node.Server) string {
		if host, port, err := net.SplitHostPort(s.Address); err == nil && s.Network != "unix" {
			return net.JoinHostPort(strings.TrimSuffix(host, "."), port)
		}
		return s.Address
	}
	return plain(a) == plain(b)
}
