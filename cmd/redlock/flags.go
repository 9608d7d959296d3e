package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/pool"
)

// maxTTL bounds how long a lock stays on your nodes after the tool was killed.
const maxTTL = time.Minute

// between checks that the value of a flag is in a range.
func between[T cmp.Ordered](flag string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("%s must be between %s and %s, not %s", flag, plain(least), plain(most), plain(value))
}

// plain formats a value as one would type it: 1m and not 1m0s.
func plain(value any) string {
	if number, ok := value.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return zeroUnits.ReplaceAllString(fmt.Sprint(value), "$1")
}

// zeroUnits matches the minutes and seconds that a duration does not need.
var zeroUnits = regexp.MustCompile(`([hm])0[ms](0s)?$`)

// checkTimeout checks the flag --timeout.
func checkTimeout(timeout, ttl time.Duration) error {
	if err := between("--timeout", timeout, time.Millisecond, ttl/4); err != nil {
		return fmt.Errorf("%w: at most a quarter of the TTL", err)
	}
	return nil
}

// checkURLs checks the flag --nodes. Messages count the nodes from 1. They never repeat a URL, which may contain a password.
func checkURLs(urls []string) error {
	if len(urls) == 0 {
		return errors.New("--nodes: no URL given")
	}
	var addrs []string
	for i, url := range urls {
		nodes, err := pool.Open([]string{url})
		switch {
		case err != nil && !strings.Contains(url, "://"):
			return fmt.Errorf("--nodes: node %d is not a URL; did you mean redis:// before it?", i+1)
		case err != nil:
			return fmt.Errorf("--nodes: node %d: %w", i+1, cmp.Or(errors.Unwrap(err), err))
		}
		addrs = append(addrs, nodes[0].Addr())
		if first := slices.Index(addrs, addrs[i]); first < i {
			return fmt.Errorf("--nodes: node %d is the same server as node %d: %s", i+1, first+1, addrs[i])
		}
	}
	return nil
}
