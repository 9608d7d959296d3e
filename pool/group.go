package pool

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
)

// groupName matches the names that Sentinel permits for a group.
var groupName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// parseGroup parses a URL of a group that Sentinels watch: the hosts are the sentinels, and the first part of the path
// is the name of the group. User name, password and database are for the servers of the group.
func parseGroup(scheme, authority, path string) ([]*node.Server, error) {
	u, hosts, err := splitHosts(scheme, authority, path)
	if err != nil {
		return nil, err
	}
	group, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if !groupName.MatchString(group) {
		return nil, errors.New("group: its name must follow the hosts, as in redis+sentinel://host1,host2,host3/mymaster; " +
			"a name has letters, digits and ._-")
	}
	u.Path = "/" + rest
	watcher, err := loginOfSentinels(u)
	if err != nil {
		return nil, err
	}
	s, err := readURL(u)
	if err != nil {
		return nil, err
	}
	watcher.Network, watcher.TLS = s.Network, s.TLS
	sentinels, err := serversAt(scheme, hosts, "26379", watcher)
	if err != nil {
		return nil, err
	}
	s.Finder, s.Watched = sentinel.New(group, sentinels), true
	s.Address = group + "@" + sentinels[0].Address
	if s.TLS != nil {
		s.TLS.ServerName = "" // that of the server that is found
	}
	return []*node.Server{s}, nil
}

// splitHosts splits a URL with several hosts into these, and a URL with the first one.
func splitHosts(scheme, authority, path string) (u *url.URL, hosts []string, err error) {
	at := strings.LastIndex(authority, "@") + 1
	hosts = strings.Split(authority[at:], ",")
	if u, err = url.Parse(scheme + "://" + authority[:at] + hosts[0] + path); err != nil {
		return nil, nil, badURL(err)
	}
	return u, hosts, nil
}

// loginOfSentinels takes the parameters about the sentinels out of a URL.
func loginOfSentinels(u *url.URL) (s node.Server, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return s, errQuery
	}
	users, passwords := query["sentinel_user"], query["sentinel_password"]
	delete(query, "sentinel_user")
	delete(query, "sentinel_password")
	u.RawQuery = query.Encode()
	if len(users) > 1 || len(passwords) > 1 {
		return s, errors.New("parameters: sentinel_user or sentinel_password is given twice")
	}
	s.Username, s.Password = strings.Join(users, ""), strings.Join(passwords, "")
	if s.Username != "" && s.Password == "" {
		return s, errors.New("parameters: sentinel_user without sentinel_password")
	}
	return s, nil
}

// serversAt returns the servers at the hosts of a URL, which have this port by default.
func serversAt(scheme string, hosts []string, port string, login node.Server) ([]node.Server, error) {
	servers := make([]node.Server, len(hosts))
	for i, host := range hosts {
		s, err := serverAt(scheme, host, port, login)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(servers[:i], func(other node.Server) bool { return sameAddress(&other, &s) }) {
			return nil, errors.New("host: given twice")
		}
		servers[i] = s
	}
	return servers, nil
}

func serverAt(scheme, host, port string, login node.Server) (s node.Server, err error) {
	u, err := url.Parse(scheme + "://" + host)
	if err != nil {
		return s, badURL(err)
	}
	if u.Port() == "" {
		u.Host = strings.TrimSuffix(u.Host, ":") + ":" + port
	}
	s = login
	if s.Address, err = hostPort(u); err != nil {
		return s, err
	}
	if s.TLS != nil {
		s.TLS = s.TLS.Clone()
		s.TLS.ServerName = u.Hostname()
	}
	return s, nil
}

// sameGroup reports whether two groups are one: they have the same name, and a sentinel watches both.
func sameGroup(a, b *sentinel.Group) bool {
	return a.Name() == b.Name() && slices.ContainsFunc(a.Sentinels(), func(one node.Server) bool {
		return slices.ContainsFunc(b.Sentinels(), func(other node.Server) bool { return sameAddress(&one, &other) })
	})
}
