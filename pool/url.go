package pool

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// target is where a URL points.
type target struct {
	network  string // "tcp" or "unix"
	address  string // host:port, or the path of the socket
	username string
	password string
	database int
	tls      bool
}

var errUnescaped = errors.New("user name and password cannot be told from the rest: " +
	"all but letters, digits and -._~ must be percent-encoded in them")

// parseURL understands the forms that Open names. Its errors quote the part that
// is wrong, never the password.
func parseURL(raw string) (target, error) {
	t, err := readURL(raw)
	if err == nil {
		return t, nil
	}
	// A / ? or # in a password makes its rest look like any other part, fit to be quoted.
	_, rest, _ := strings.Cut(raw, "//")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return target{}, errUnescaped
	}
	return target{}, err
}

func readURL(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		if parse := (*url.Error)(nil); errors.As(err, &parse) {
			err = parse.Err // without the URL, which may hold a password
		}
		if escape := url.EscapeError(""); errors.As(err, &escape) {
			err = errors.New("invalid escape after %") // which may be of the password
		}
		return target{}, fmt.Errorf("not a URL: %w", err)
	}
	t := target{network: "tcp", tls: u.Scheme == "rediss"}
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return target{}, fmt.Errorf("scheme %q: redis://, rediss:// and unix:// are known", u.Scheme)
	case u.Opaque != "":
		return target{}, fmt.Errorf("%s: must be followed by //", u.Scheme)
	case u.Fragment != "":
		return target{}, fmt.Errorf("fragment %q: there is nothing that it could mean", u.Fragment)
	}
	if u.User != nil {
		t.username = u.User.Username()
		password, isSet := u.User.Password()
		if !isSet || password == "" && t.username != "" {
			// Not quoted: other tools take what stands there alone for a password.
			return target{}, errors.New("user name without a password: write redis://:password@host for a password alone")
		}
		t.password = password
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return target{}, fmt.Errorf("parameters: %w", err)
	}
	for key, values := range query {
		if key != "db" {
			return target{}, fmt.Errorf("parameter %q: only db is known", key)
		}
		if len(values) > 1 {
			return target{}, fmt.Errorf("database given twice: %q and %q", values[0], values[1])
		}
	}
	database := query.Get("db")
	if u.Scheme == "unix" {
		t.network, t.address = "unix", u.Path
		if u.Host != "" || u.Path == "" {
			return target{}, fmt.Errorf("socket %q: must be an absolute path, as in unix:///run/redis.sock", u.Host+u.Path)
		}
	} else {
		if t.address, err = hostPort(u); err != nil {
			return target{}, err
		}
		if path := strings.TrimPrefix(u.Path, "/"); path != "" {
			if database != "" {
				return target{}, fmt.Errorf("database given twice: %q and %q", path, database)
			}
			database = path
		}
	}
	if database != "" {
		if t.database, err = strconv.Atoi(database); err != nil || t.database < 0 {
			return target{}, fmt.Errorf("database %q: must be a number from 0", database)
		}
	}
	return t, nil
}

func hostPort(u *url.URL) (string, error) {
	host, port := u.Hostname(), u.Port()
	if host == "" || strings.ContainsAny(host, "[]") {
		return "", fmt.Errorf("host %q: must be a name or an IP address", host)
	}
	if port == "" {
		port = "6379"
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("port %q: must be from 1 to 65535", port)
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.Itoa(n)), nil
}
