package pool

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/node"
)

// errInseparable is about a URL of which any part may belong to a password.
var errInseparable = errors.New("user name and password cannot be separated from the rest: " +
	"all but letters, digits and -._~ must be percent-encoded in them")

// parseURL understands the forms that Open names. TLS is not nil if the URL asks for it.
//
// Its errors name the part that is wrong and repeat nothing of the URL, nor what package url says: a password that is not
// escaped, or that stands in the wrong place, looks like any other part.
func parseURL(raw string) (*node.Server, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "redis" && scheme != "rediss" && scheme != "unix" {
		return nil, errors.New("scheme: must be redis://, rediss:// or unix://")
	}
	// After a / ? or # in a password its rest looks like any other part. The path of a socket may have an @ of its own.
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	if strings.Contains(path, "@") && (scheme != "unix" || authority != "") {
		return nil, errInseparable
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, badURL(err)
	}
	return readURL(u)
}

// badURL returns what is wrong with a URL that cannot be parsed.
func badURL(err error) error {
	switch {
	case errors.As(err, new(url.EscapeError)):
		return errors.New("not a URL: an invalid escape after %")
	case errors.As(err, new(url.InvalidHostError)):
		return errors.New("not a URL: an invalid character in the host")
	}
	return errors.New("not a URL: //[user:password@]host[:port][/db] must follow the scheme, with a number for the port; " +
		"in user and password all but letters, digits and -._~ must be percent-encoded")
}

func readURL(u *url.URL) (*node.Server, error) {
	t := &node.Server{Network: "tcp"}
	if u.Fragment != "" {
		return nil, errors.New("fragment: there is nothing that # could mean")
	}
	if u.User != nil {
		t.Username = u.User.Username()
		password, isSet := u.User.Password()
		if !isSet || password == "" && t.Username != "" {
			// Other tools take what stands there alone for a password.
			return nil, errors.New("user name without a password: write redis://:password@host for a password alone")
		}
		t.Password = password
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("parameters: an invalid escape after %, or a semicolon")
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
		if u.Scheme == "rediss" {
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

func hostPort(u *url.URL) (string, error) {
	host, port := u.Hostname(), cmp.Or(u.Port(), "6379")
	if host == "" || strings.ContainsAny(host, "[]") {
		return "", errors.New("host: must be a name or an IP address")
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return "", errors.New("port: must be from 1 to 65535")
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.Itoa(n)), nil
}
