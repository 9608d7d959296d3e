package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/alecthomas/kong"
)

// config has the values of flags that a file sets: a JSON object whose keys are the names of flags. The command line and the
// environment go before it.
type config map[string]any

// configFlag is the name of a file that sets flags.
type configFlag string

// BeforeResolve adds what the file sets. kong calls it.
func (configFlag) BeforeResolve(context *kong.Context, trace *kong.Path) error {
	path := string(context.FlagValue(trace.Flag).(configFlag))
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
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		for _, flag := range n.Flags {
			known[flag.Name] = true
		}
		for _, child := range n.Children {
			visit(child)
		}
	}
	visit(app.Node)
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
