package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/quorumlock/quorumlock/internal/node"
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

// decodeWait decodes a flag whose value is a duration. A number without a unit is of seconds, as for flock(1).
func decodeWait(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	if seconds.MatchString(text) {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("must be a duration such as 90s or 5m, or a number of seconds, not %q", text)
	}
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	target.SetInt(int64(d))
	return nil
}

// seconds matches a number without a unit.
var seconds = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// checkTimeout checks the flag --timeout.
func checkTimeout(timeout, ttl time.Duration) error {
	if err := between("--timeout", timeout, time.Millisecond, ttl/4); err != nil {
		return fmt.Errorf("%w: at most a quarter of the TTL", err)
	}
	return nil
}

// checkGuard checks the flag --restart-guard of a command whose lock stays for least, as flags say. A guard of 0 is off.
func checkGuard(guard, least time.Duration, flags string) error {
	switch {
	case guard != 0 && guard < least:
		return fmt.Errorf("--restart-guard must be at least %s (%s), not %s", flags, plain(least), plain(guard))
	case guard > node.MaxGuard:
		return fmt.Errorf("--restart-guard must be at most %s, not %s", plain(node.MaxGuard), plain(guard))
	}
	return nil
}

// anyGuard is a restart guard for nodes that need one, under which no TTL is too long.
var anyGuard = pool.WithRestartGuard(longestTTL)

// failsOver reports whether a node of these URLs is a group of servers, and so needs a restart guard.
func failsOver(urls []string) bool {
	return slices.ContainsFunc(urls, func(url string) bool {
		scheme, _, _ := strings.Cut(url, "://")
		return strings.Contains(scheme, "+")
	})
}

// joined returns the values of --nodes as they were meant: what has no scheme behind the URL of a group is a host of it.
func joined(values []string) (urls []string) {
	for _, value := range values {
		value = strings.TrimSpace(value)
		if last := len(urls) - 1; last >= 0 && !strings.Contains(value, "://") && failsOver(urls[last:]) {
			urls[last] += "," + value
			continue
		}
		urls = append(urls, value)
	}
	return urls
}

// checkURLs checks the flag --nodes, and returns its URLs. Messages count the nodes from 1. They never repeat a URL, which
// may contain a password.
func checkURLs(values []string) (urls []string, err error) {
	urls = joined(values)
	if len(urls) == 0 {
		return nil, errors.New("--nodes: no URL given")
	}
	for i, url := range urls {
		nodes, err := pool.Open([]string{url}, anyGuard)
		switch {
		case err != nil && !strings.Contains(url, "://"):
			return nil, fmt.Errorf("--nodes: node %d is not a URL; did you mean redis:// before it?", i+1)
		case err != nil:
			return nil, fmt.Errorf("--nodes: node %d: %w", i+1, cmp.Or(errors.Unwrap(err), err))
		}
		same := func(other string) bool { // nothing else can be wrong with both together
			_, err := pool.Open([]string{other, url}, anyGuard)
			return err != nil
		}
		if first := slices.IndexFunc(urls[:i], same); first >= 0 {
			return nil, fmt.Errorf("--nodes: node %d is the same server as node %d: %s", i+1, first+1, nodes[0].Addr())
		}
	}
	return urls, nil
}

// config has the values of flags that a file sets: a JSON object whose keys are the names of flags. The command line and the
// environment go before it.
type config map[string]any

// configFlag is the name of a file that sets flags.
type configFlag string

// BeforeResolve adds what the file sets. kong calls it for the flag, and for that of each other command if a variable sets it.
func (configFlag) BeforeResolve(context *kong.Context, trace *kong.Path) error {
	if !slices.Contains(context.Flags(), trace.Flag) {
		return nil
	}
	path := string(context.FlagValue(trace.Flag).(configFlag))
	if path == "" {
		return usage("--config: the name of the file is empty")
	}
	file, err := os.Open(kong.ExpandPath(path))
	if err != nil {
		return usage("--config: %w", err)
	}
	defer file.Close()
	c, err := loadConfig(file)
	if err != nil {
		return usage("--config: %s: %w", path, err)
	}
	context.AddResolver(c)
	return nil
}

// loadConfig reads a file.
func loadConfig(r io.Reader) (config, error) {
	var c config
	in := json.NewDecoder(io.LimitReader(r, maxConfig))
	in.UseNumber()
	if err := in.Decode(&c); err != nil {
		at := ""
		if wrong := (*json.SyntaxError)(nil); errors.As(err, &wrong) {
			at = fmt.Sprintf(" (at byte %d: %v)", wrong.Offset, wrong)
		}
		return nil, fmt.Errorf(`must be a JSON object, such as {"nodes": ["redis://host"]}%s`, at)
	}
	if in.More() {
		return nil, errors.New("must be a single JSON object")
	}
	for _, key := range slices.Sorted(maps.Keys(c)) {
		if !isPlain(c[key]) { // kong would repeat the value, which may be a password
			return nil, fmt.Errorf("%q must be a text, a number, true, false, or a list of texts", key)
		}
	}
	return c, nil
}

// maxConfig bounds the size of the file, in bytes.
const maxConfig = 1 << 20

// Validate refuses keys that are no flag of any command.
func (c config) Validate(app *kong.Application) error {
	known := map[string]bool{}
	for _, command := range append(app.Children, app.Node) {
		for _, flag := range command.Flags {
			known[flag.Name] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c)) {
		if !known[key] {
			return fmt.Errorf("--config: %q is not the name of a flag", key)
		}
	}
	return nil
}

// isPlain reports whether a value is one that a flag can have.
func isPlain(value any) bool {
	switch value := value.(type) {
	case string, bool, json.Number:
		return true
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool { _, isText := item.(string); return !isText })
	}
	return false
}

// Resolve returns the value of a flag, unless a variable sets it.
func (c config) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, isSet := os.LookupEnv(name); isSet {
			return nil, nil
		}
	}
	value := c[flag.Name]
	if number, isNumber := value.(json.Number); isNumber {
		return number.String(), nil
	}
	return value, nil
}
