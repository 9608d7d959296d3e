package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
)

// peers are the modules whose versions the page names.
var peers = []struct{ name, module string }{
	{"redsync", "github.com/go-redsync/redsync/v4"},
	{"redigo", "github.com/gomodule/redigo"},
	{"go-redis", "github.com/redis/go-redis/v9"},
	{"redislock", "github.com/bsm/redislock"},
}

var serverVersion = regexp.MustCompile(`\bv=(\S+)`)

// describe writes what the figures depend on, as settings of benchfmt.
func describe(ctx context.Context, to io.Writer, passes int) error {
	server, err := output(ctx, "redis-server", "--version")
	if err != nil {
		return fmt.Errorf("the benchmarks need redis-server (make setup): %w", err)
	}
	version := serverVersion.FindStringSubmatch(server)
	if version == nil {
		return fmt.Errorf("redis-server --version says no version: %q", server)
	}
	kernel, err := output(ctx, "uname", "-r")
	if err != nil {
		return err
	}
	fmt.Fprintln(to, "Unit cycles/s better=higher")
	fmt.Fprintln(to, "Unit acquisitions/s better=higher")
	fmt.Fprintln(to, "passes:", passes)
	fmt.Fprintln(to, "cores:", runtime.NumCPU())
	release, _, _ := strings.Cut(strings.TrimSpace(kernel), "-") // what follows is the distribution's
	fmt.Fprintln(to, "kernel:", release)
	fmt.Fprintln(to, "toolchain:", runtime.Version())
	fmt.Fprintln(to, "redis-server:", version[1])
	for _, p := range peers {
		version, err := output(ctx, "go", "list", "-m", "-f", "{{.Version}}", p.module)
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%s: %s\n", p.name, strings.TrimSpace(version))
	}
	fmt.Fprintln(to, "cpu: unknown") // go test knows it on most systems, and says so behind this
	return nil
}
