package pool

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/node"
)

// parseURL understands the forms that Open names. Its errors quote the part that
// is wrong, never the password. TLS is not nil if the URL asks for it.
func parseURL(raw string) (*node.Server, error) {
	t, err := readURL(raw)
	if err == nil {
		return t, nil
	}
	// After a / ? or # in a password its rest looks like any other part, which would be quoted.
	_, rest, _ := strings.Cut(raw, "//")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return nil, errors.New("user name and password cannot be separated from the rest: " +
			"all but letters, digits and -._~ must be percent-encoded in them")
	}
	return nil, err
}

func readURL(raw string) (*node.Server, error) {
	u, err := url.Parse(raw)
	if err != nil {
		err = errors.Unwrap(err) // without the URL, which may hold a password
		if escape := url.EscapeError(""); errors.As(err, &escape) {
			err = errors.New("invalid escape after %") // which may be of the password
		}
		return nil, fmt.Errorf("not a URL: %w", err)
	}
	t := &node.Server{Network: "tcp"}
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return nil, fmt.Errorf("scheme %q: redis://, rediss:// and unix:// are known", u.Scheme)
	case u.Opaque != "":
		return nil, fmt.Errorf("%s: must be followed by //", u.Scheme)
	case u.Fragment != "":
		return nil, fmt.Errorf("fragment %q: there is nothing that it could mean", u.Fragment)
	}
	if u.User != nil {
		t.Username = u.User.Username()
		password, isSet := u.User.Password()
		if !isSet || password == "" && t.Username != "" {
			// Not quoted: other tools take what stands there alone for a password.
			return nil, errors.New("user name without a password: write redis://:password@host for a password alone")
		}
		t.Password = password
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	for key := range query {
		if key != "db" {
			return nil, fmt.Errorf("parameter %q: only db is known", key)
		}
	}
	databases := query["db"]
	if u.Scheme == "unix" {
		t.Network, t.Address = "unix", u.Path
		if u.Host != "" || u.Path == "" {
			return nil, fmt.Errorf("socket %q: must be an absolute path, as in unix:///run/redis.sock", u.Host+u.Path)
		}
	} else {
		if t.Address, err = hostPort(u); err != nil {
			return nil, err
		}
		if u.Scheme == "rediss" {
			t.TLS = &tls.Config{}
			t.TLS.ServerName, _, _ = net.SplitHostPort(t.Address)
		}
		if path := strings.TrimPrefix(u.Path, "/"); path != "" {
			databases = append(databases, path)
		}
	}
	if len(databases) > 1 {
		return nil, fmt.Errorf("database given twice: %q", databases)
	}
	for _, database := range databases {
		if t.Database, err = strconv.Atoi(database); err != nil || t.Database < 0 {
			return nil, fmt.Errorf("database %q: must be a number from 0", database)
		}
	}
	return t, nil
}

func hostPort(u *url.URL) (string, error) {
	host, port := u.Hostname(), cmp.Or(u.Port(), "6379")
	if host == "" || strings.ContainsAny(host, "[]") {
		return "", fmt.Errorf("host %q: must be a name or an IP address", host)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("port %q: must be from 1 to 65535", port)
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.Itoa(n)), nil
}
