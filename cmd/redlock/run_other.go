//go:build !(darwin || freebsd || linux)

package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

// supervise refuses: package supervise does not know this operating system.
func (c *runCmd) supervise(context.Context, *supervise.Events, func(time.Duration)) (supervise.Report, error) {
	return supervise.Report{}, errors.New("run needs Linux, macOS or FreeBSD; here, use try, extend and release around the command")
}

// hold does nothing, as there are no holders.
func hold() (code int, isHolder bool) { return 0, false }
